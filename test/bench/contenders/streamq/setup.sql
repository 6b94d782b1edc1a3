SELECT streamq.add_source(:'source');
\if :update
	\set mode update
\else
	\set mode append
\endif
SELECT streamq.create_query(:'name', :'query', output_mode => :'mode', sink => :'sink');
