INSERT INTO bench.one_row_large VALUES (1, 1, 1000);
CALL streamq.run('one_row_large');
