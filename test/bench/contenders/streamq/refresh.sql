CALL streamq.run(:'name');
