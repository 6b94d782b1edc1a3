INSERT INTO source VALUES (nextval('ids'), 1, 1000);
