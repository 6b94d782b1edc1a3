-- The limit: plain statements that are told which rows are new.
CREATE TABLE :sink AS :query WITH NO DATA;
