-- Filter and project: half of the rows, one expression.
\set source source
\set columns 'id, device, value * 9 / 5 + 32 AS fahrenheit'
\set result 'id, device, fahrenheit'
\set condition 'value >= 512'
\set grouping ''
\set update off
\set keys ''
\set merge ''
