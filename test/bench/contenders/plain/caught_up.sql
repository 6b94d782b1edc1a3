-- The first INSERT needs no index, the later ones do, and are fastest with the rows
-- in the order of their keys and room for the next version in the same page.
\if :update
	ALTER TABLE :sink SET (fillfactor = 85);
	CREATE UNIQUE INDEX sink_keys ON :sink (:keys);
	CLUSTER :sink USING sink_keys;
	VACUUM (ANALYZE) :sink;
\endif
