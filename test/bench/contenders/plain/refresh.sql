\if :caught_up
	INSERT INTO :sink AS s SELECT :columns FROM :batch WHERE :condition :grouping :merge;
\else
	INSERT INTO :sink SELECT :columns FROM :batch WHERE :condition :grouping;
\endif
