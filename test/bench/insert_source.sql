INSERT INTO bench.written_source VALUES (nextval('bench.written_ids'), 1, 1000);
