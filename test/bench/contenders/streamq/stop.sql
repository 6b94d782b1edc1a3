SELECT streamq.stop(:'name');
