INSERT INTO bench.one_row VALUES (1, 1, 1000);
CALL streamq.run('one_row');
