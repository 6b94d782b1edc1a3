INSERT INTO bench.one_row_plain VALUES (1, 1, 1000);
INSERT INTO bench.one_row_plain_sink SELECT id, device, value * 9 / 5 + 32 FROM (VALUES (1, 1, 1000)) AS r (id, device, value) WHERE value >= 512;
