-- A store of format 1: two queues, a durable subscription, two messages.
pragma application_id = 1131378297;
pragma user_version = 1;
create table queues (
    number integer primary key,
    host text not null, kind text not null, name text not null,
    next_seq integer not null, is_live integer not null, settings text not null
);
create table durables (
    host text not null, name text not null,
    destinations text not null, selector text not null,
    primary key (host, name)
) without rowid;
create table messages (
    id integer primary key, grp text not null, deliveries integer not null default 0,
    size integer not null, expires_ms integer not null
);
create table bodies (
    id integer primary key, kind text not null, head blob not null, body blob not null,
    crc integer not null
);
insert into queues values (1, 'default', 'queue', 'a', 1001, 1, ''),
                          (2, 'default', 'durable', 'd', 2001, 1, '');
insert into durables values ('default', 'd', '["/topic/t"]', 'x = 1');
insert into messages values (4398046511111, 'IBM', 2, 5, 0), (8796093022209, '', 0, 3, 77);
insert into bodies values (4398046511111, 'note', x'49424d', x'68656c6c6f', 3281005270),
                          (8796093022209, 'note', x'', x'616263', 891568578);
