-- A trigger for each statement that adds the new rows up in the writer's
-- transaction.
CREATE TABLE :sink AS :query WITH NO DATA;
\if :update
	ALTER TABLE :sink SET (fillfactor = 85);
	CREATE UNIQUE INDEX ON :sink (:keys);
\endif
SELECT format('CREATE FUNCTION follow() RETURNS trigger LANGUAGE plpgsql AS %L',
	format('BEGIN INSERT INTO %s AS s SELECT %s FROM new_rows WHERE %s %s %s; RETURN NULL; END',
		:'sink', :'columns', :'condition', :'grouping', :'merge')) \gexec
CREATE TRIGGER follow AFTER INSERT ON :source REFERENCING NEW TABLE AS new_rows
	FOR EACH STATEMENT EXECUTE FUNCTION follow();
