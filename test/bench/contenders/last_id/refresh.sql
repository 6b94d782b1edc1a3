BEGIN;
SELECT last_id AS first FROM progress FOR UPDATE \gset
SELECT coalesce(max(id), :first) AS last FROM :source \gset
INSERT INTO :sink AS s
	SELECT :columns FROM :source WHERE :condition AND id > :first AND id <= :last :grouping :merge;
UPDATE progress SET last_id = :last;
COMMIT;
