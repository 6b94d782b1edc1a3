TABLE :sink;
