SELECT streamq.start(:'name');
