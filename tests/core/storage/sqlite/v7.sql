pragma application_id = 1131378297;
pragma user_version = 7;
BEGIN TRANSACTION;
CREATE TABLE bodies (
    id integer primary key, kind text not null, head blob not null, body blob not null,
    crc integer not null
);
INSERT INTO "bodies" VALUES(4398046511105,'note',X'672030',X'313A31',3288799232);
INSERT INTO "bodies" VALUES(4398046511106,'note',X'672030',X'313A32',1561217466);
INSERT INTO "bodies" VALUES(4398046511107,'note',X'672030',X'313A33',705263916);
INSERT INTO "bodies" VALUES(8796093022209,'note',X'672030',X'323A31',3326191193);
INSERT INTO "bodies" VALUES(8796093022210,'note',X'672030',X'323A32',1598617571);
INSERT INTO "bodies" VALUES(8796093022211,'note',X'672030',X'323A33',676317045);
CREATE TABLE durables (
    host text not null, name text not null,
    destinations text not null, selector text not null, crc integer,
    primary key (host, name)
) without rowid;
INSERT INTO "durables" VALUES('default','d','["/topic/a"]','x > 1',942691996);
CREATE TABLE ids (place integer primary key, digest blob not null);
INSERT INTO "ids" VALUES(8796093022209,X'64646464646464646464646464646464');
CREATE TABLE journal (
    number integer primary key, arrivals blob not null, deletions blob not null,
    crc integer not null
);
INSERT INTO "journal" VALUES(0,X'',X'0000000000000001',304476159);
INSERT INTO "journal" VALUES(2,X'000004000000000400000000000000030000000000000000000000000000000004040000000100000003000000036E6F746567672030313A34000008000000000400000000000000030000000000000000000000000000000004040000000000000002000000036E6F74652030323A34',X'',312853386);
INSERT INTO "journal" VALUES(3,X'000004000000000500000000000000030000000000000000000000000000000004040000000100000003000000036E6F746568682030313A35',X'0000040000000001',70995094);
INSERT INTO "journal" VALUES(4,X'',X'0000040000000004',4192098662);
CREATE TABLE messages (
    id integer primary key, grp text not null, deliveries integer not null default 0,
    size integer not null, expires_ms integer not null,
    priority integer not null default 4, due_ms integer not null default 0, crc integer
);
INSERT INTO "messages" VALUES(4398046511105,'g',0,3,0,4,0,730410084);
INSERT INTO "messages" VALUES(4398046511106,'g',3,3,0,4,0,730410084);
INSERT INTO "messages" VALUES(4398046511107,'g',0,3,0,4,0,730410084);
INSERT INTO "messages" VALUES(8796093022209,'g',0,3,0,4,0,730410084);
INSERT INTO "messages" VALUES(8796093022210,'g',0,3,0,4,0,730410084);
INSERT INTO "messages" VALUES(8796093022211,'g',0,3,0,4,0,730410084);
CREATE TABLE queues (
    number integer primary key,
    host text not null, kind text not null, name text not null,
    next_seq integer not null, is_live integer not null, settings text not null,
    dropped_to integer not null default 0, crc integer
);
INSERT INTO "queues" VALUES(1,'default','queue','orders',100,1,'',0,3549071016);
INSERT INTO "queues" VALUES(2,'default','queue','bills',100,1,'',0,1763722855);
CREATE TRIGGER depart after delete on messages begin
    delete from bodies where id = old.id;
end;
COMMIT;
