BEGIN TRANSACTION;
CREATE TABLE cursor (
            name TEXT NOT NULL, number BIGINT NOT NULL, hash TEXT NOT NULL, timestamp BIGINT NOT NULL,
            PRIMARY KEY (name, number));
INSERT INTO "cursor" VALUES('reader',100,'0x000000000000000000000000000000000000000000000000000000000000064a',1100);
CREATE TABLE definition_jobs (
            job TEXT NOT NULL, id TEXT NOT NULL, customer TEXT NOT NULL, PRIMARY KEY (job, id));
CREATE TABLE definitions (
            id TEXT NOT NULL PRIMARY KEY, key_name TEXT NOT NULL, sealed BLOB NOT NULL, owner TEXT NOT NULL,
            ends_at BIGINT);
CREATE TABLE journal (
            id INTEGER PRIMARY KEY AUTOINCREMENT, proof TEXT NOT NULL, kind TEXT NOT NULL, at BIGINT NOT NULL, slurm_job_id BIGINT,
            reason TEXT NOT NULL);
INSERT INTO "journal" VALUES(1,'179188/0xabababababababababababababababababababab/0x0000000000000000000000000000000000000000000000000000000000000001/script-1','claimed',100,NULL,'');
INSERT INTO "journal" VALUES(2,'179188/0xabababababababababababababababababababab/0x0000000000000000000000000000000000000000000000000000000000000002/script-1','claimed',100,NULL,'');
INSERT INTO "journal" VALUES(3,'179188/0xabababababababababababababababababababab/0x0000000000000000000000000000000000000000000000000000000000000002/script-1','submit_intended',200,NULL,'a reason');
INSERT INTO "journal" VALUES(4,'179188/0xabababababababababababababababababababab/0x0000000000000000000000000000000000000000000000000000000000000003/script-1','claimed',100,NULL,'');
INSERT INTO "journal" VALUES(5,'179188/0xabababababababababababababababababababab/0x0000000000000000000000000000000000000000000000000000000000000003/script-1','submitted',200,703,'a reason');
INSERT INTO "journal" VALUES(6,'179188/0xabababababababababababababababababababab/0x0000000000000000000000000000000000000000000000000000000000000004/script-1','claimed',100,NULL,'');
INSERT INTO "journal" VALUES(7,'179188/0xabababababababababababababababababababab/0x0000000000000000000000000000000000000000000000000000000000000004/script-1','submit_rejected',200,NULL,'a reason');
INSERT INTO "journal" VALUES(8,'179188/0xabababababababababababababababababababab/0x0000000000000000000000000000000000000000000000000000000000000005/script-1','claimed',100,NULL,'');
INSERT INTO "journal" VALUES(9,'179188/0xabababababababababababababababababababab/0x0000000000000000000000000000000000000000000000000000000000000005/script-1','script_unavailable',200,NULL,'a reason');
INSERT INTO "journal" VALUES(10,'179188/0xabababababababababababababababababababab/0x0000000000000000000000000000000000000000000000000000000000000006/script-1','claimed',100,NULL,'');
INSERT INTO "journal" VALUES(11,'179188/0xabababababababababababababababababababab/0x0000000000000000000000000000000000000000000000000000000000000006/script-1','seen',200,706,'a reason');
INSERT INTO "journal" VALUES(12,'179188/0xabababababababababababababababababababab/0x0000000000000000000000000000000000000000000000000000000000000007/script-1','claimed',100,NULL,'');
INSERT INTO "journal" VALUES(13,'179188/0xabababababababababababababababababababab/0x0000000000000000000000000000000000000000000000000000000000000007/script-1','absent',200,NULL,'a reason');
INSERT INTO "journal" VALUES(14,'179188/0xabababababababababababababababababababab/0x0000000000000000000000000000000000000000000000000000000000000008/script-1','claimed',100,NULL,'');
INSERT INTO "journal" VALUES(15,'179188/0xabababababababababababababababababababab/0x0000000000000000000000000000000000000000000000000000000000000008/script-1','present',200,NULL,'a reason');
INSERT INTO "journal" VALUES(16,'179188/0xabababababababababababababababababababab/0x0000000000000000000000000000000000000000000000000000000000000009/script-1','claimed',100,NULL,'');
INSERT INTO "journal" VALUES(17,'179188/0xabababababababababababababababababababab/0x0000000000000000000000000000000000000000000000000000000000000009/script-1','undone',200,NULL,'a reason');
INSERT INTO "journal" VALUES(18,'179188/0xabababababababababababababababababababab/0x000000000000000000000000000000000000000000000000000000000000000a/script-1','claimed',100,NULL,'');
INSERT INTO "journal" VALUES(19,'179188/0xabababababababababababababababababababab/0x000000000000000000000000000000000000000000000000000000000000000a/script-1','stranger',200,NULL,'a reason');
INSERT INTO "journal" VALUES(20,'179188/0xabababababababababababababababababababab/0x000000000000000000000000000000000000000000000000000000000000000b/script-1','claimed',100,NULL,'');
INSERT INTO "journal" VALUES(21,'179188/0xabababababababababababababababababababab/0x000000000000000000000000000000000000000000000000000000000000000b/script-1','closed',200,NULL,'a reason');
CREATE TABLE outbox (
            id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL, call TEXT NOT NULL, state TEXT NOT NULL, created_at BIGINT NOT NULL,
            reason TEXT NOT NULL);
INSERT INTO "outbox" VALUES(1,'register','Register {"hardware":{"gpus_per_node":[0,1],"cpus_per_node":[4,8],"memory_per_node_mb":[1000,2000]},"prices":{"gpu_per_min":1000000000000000000000000,"cpu_per_min":1,"memory_mb_per_min":0},"labels":[{"key":"os","value":"linux"}]}','sent',1800000000,'');
INSERT INTO "outbox" VALUES(2,'claim:100:1','ClaimJobs {"limit":20}','sent',1800000000,'');
INSERT INTO "outbox" VALUES(3,'cancelling:100:1','ClaimCancelling {}','rejected',1800000000,'NothingToClaim()');
INSERT INTO "outbox" VALUES(4,'top-up:100:1','ClaimTopUp {}','queued',1800000000,'');
INSERT INTO "outbox" VALUES(5,'running:179188/0xabababababababababababababababababababab/0x0000000000000000000000000000000000000000000000000000000000000002/script-1','SetRunning {"proof":{"job_id":{"chain_id":179188,"contract":"0xabababababababababababababababababababab","number":2},"batch_location_hash":"script-1"},"started_at":1000}','queued',1800000000,'');
INSERT INTO "outbox" VALUES(6,'settle:179188/0xabababababababababababababababababababab/0x0000000000000000000000000000000000000000000000000000000000000001/script-1','Settle {"proof":{"job_id":{"chain_id":179188,"contract":"0xabababababababababababababababababababab","number":1},"batch_location_hash":"script-1"},"state":5,"seconds":61,"exit_code":0,"error":"a \"word\"","evidence":"0x1111111111111111111111111111111111111111111111111111111111111111"}','queued',1800000000,'');
INSERT INTO "outbox" VALUES(7,'refuse:179188/0xabababababababababababababababababababab/0x0000000000000000000000000000000000000000000000000000000000000003/script-1','Refuse {"proof":{"job_id":{"chain_id":179188,"contract":"0xabababababababababababababababababababab","number":3},"batch_location_hash":"script-1"}}','queued',1800000000,'');
INSERT INTO "outbox" VALUES(8,'match:179188/0xabababababababababababababababababababab/0x0000000000000000000000000000000000000000000000000000000000000004/script-1','Match {"proof":{"job_id":{"chain_id":179188,"contract":"0xabababababababababababababababababababab","number":4},"batch_location_hash":"script-1"},"provider":"0xefefefefefefefefefefefefefefefefefefefef","max_price_per_min":1000000000000000000000000000000}','queued',1800000000,'');
INSERT INTO "outbox" VALUES(9,'expire:179188/0xabababababababababababababababababababab/0x0000000000000000000000000000000000000000000000000000000000000005/script-1','Expire {"proof":{"job_id":{"chain_id":179188,"contract":"0xabababababababababababababababababababab","number":5},"batch_location_hash":"script-1"},"state":2,"state_block":99}','queued',1800000000,'');
CREATE TABLE schema_version (version INTEGER NOT NULL);
INSERT INTO "schema_version" VALUES(5);
CREATE TABLE taken_nonces (nonce TEXT NOT NULL PRIMARY KEY, ends_at BIGINT NOT NULL);
CREATE TABLE transactions (
            id INTEGER PRIMARY KEY AUTOINCREMENT, hash TEXT NOT NULL, account TEXT NOT NULL, nonce BIGINT NOT NULL, raw TEXT NOT NULL,
            entry_ids TEXT NOT NULL, max_fee TEXT NOT NULL, tip TEXT NOT NULL, sent_at BIGINT,
            withdrawn INTEGER NOT NULL, closed INTEGER NOT NULL, UNIQUE (account, hash));
INSERT INTO "transactions" VALUES(1,'0x0000000000000000000000000000000000000000000000000000000000070001','0x0000000000000000000000000000000000000000000000000000000000000000/0xcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd',7,'0x02aa','[1, 2]','3000000000000000000000000000000','1',NULL,0,0);
INSERT INTO "transactions" VALUES(2,'0x0000000000000000000000000000000000000000000000000000000000080001','0x0000000000000000000000000000000000000000000000000000000000000000/0xcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd',8,'0x02aa','[3]','3000000000000000000000000000000','1',1800000000,0,1);
CREATE INDEX journal_by_proof ON journal (proof, kind, id);
CREATE UNIQUE INDEX outbox_open_key ON outbox (key) WHERE state IN ('queued', 'sent', 'mined');
CREATE INDEX outbox_open ON outbox (id) WHERE state IN ('queued', 'sent', 'mined');
CREATE INDEX transactions_open ON transactions (account, nonce, id) WHERE closed = 0;
CREATE INDEX definitions_end ON definitions (ends_at) WHERE ends_at IS NOT NULL;
CREATE INDEX definitions_key ON definitions (key_name);
CREATE INDEX definition_jobs_by_id ON definition_jobs (id);
CREATE INDEX taken_nonces_end ON taken_nonces (ends_at);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('transactions',2);
INSERT INTO "sqlite_sequence" VALUES('journal',21);
INSERT INTO "sqlite_sequence" VALUES('outbox',9);
COMMIT;
