INSERT INTO bench.written_plain VALUES (nextval('bench.written_ids'), 1, 1000);
