INSERT INTO :source SELECT * FROM :batch;
