INSERT INTO bench.written_index VALUES (nextval('bench.written_ids'), 1, 1000);
