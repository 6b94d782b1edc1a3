SELECT streamq.drop_query(name, drop_sink => true) FROM streamq.queries WHERE name = :'name';
SELECT streamq.drop_source(source) FROM streamq.sources WHERE source = to_regclass(:'source');
