-- The first INSERT needs no index, the later ones do.
\if :update
	CREATE UNIQUE INDEX ON :sink (:keys);
\endif
