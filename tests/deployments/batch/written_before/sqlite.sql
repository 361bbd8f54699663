BEGIN TRANSACTION;
CREATE TABLE wordbound_attempts (
	batch BIGINT NOT NULL, 
	line BIGINT NOT NULL, 
	attempts INTEGER NOT NULL, 
	PRIMARY KEY (batch, line)
);
INSERT INTO "wordbound_attempts" VALUES(2,3,1);
CREATE TABLE wordbound_batches (
	number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	id VARCHAR(128) NOT NULL, 
	owner VARCHAR(256) NOT NULL, 
	kind VARCHAR(32) NOT NULL, 
	endpoint TEXT NOT NULL, 
	input_file_id VARCHAR(128) NOT NULL, 
	completion_window VARCHAR(64) NOT NULL, 
	status VARCHAR(32) NOT NULL, 
	created_at BIGINT NOT NULL, 
	deadline BIGINT NOT NULL, 
	in_progress_at BIGINT, 
	finalizing_at BIGINT, 
	completed_at BIGINT, 
	failed_at BIGINT, 
	expired_at BIGINT, 
	cancelling_at BIGINT, 
	cancelled_at BIGINT, 
	total BIGINT NOT NULL, 
	completed BIGINT NOT NULL, 
	failed BIGINT NOT NULL, 
	output_file_id VARCHAR(128), 
	error_file_id VARCHAR(128), 
	metadata JSON, 
	errors JSON NOT NULL, 
	output_expires_after_s BIGINT, 
	UNIQUE (id)
);
INSERT INTO "wordbound_batches" VALUES(1,'batch_00000000000000000000000000000001','anna','batch','/v1/chat/completions','file-00000000000000000000000000000001','24h','completed',1000000,1086400,1000000,1000000,1000000,NULL,NULL,NULL,NULL,1,1,0,'file-4c60b88f36df447d71479a6513d8b527',NULL,'{"f\u00fcr": "wen \u8bcd"}','[]',3600);
INSERT INTO "wordbound_batches" VALUES(2,'batch_00000000000000000000000000000002','anna','batch','/v1/chat/completions','file-00000000000000000000000000000002','24h','in_progress',1000000,1086400,1000000,NULL,NULL,NULL,NULL,NULL,NULL,5,1,1,NULL,NULL,'{"run": "7"}','[]',NULL);
INSERT INTO "wordbound_batches" VALUES(3,'job_33333333333333333333333333333333','default','job','/v1/chat/completions','file-00000000000000000000000000000003','24h','validating',1000000,1086400,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,0,0,NULL,NULL,NULL,'[]',NULL);
INSERT INTO "wordbound_batches" VALUES(4,'batch_00000000000000000000000000000004','anna','other','/v1/chat/completions','file-00000000000000000000000000000004','24h','validating',1000000,1086400,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,0,0,NULL,NULL,NULL,'[]',NULL);
INSERT INTO "wordbound_batches" VALUES(5,'batch_00000000000000000000000000000005','bert','batch','/v1/chat/completions','file-00000000000000000000000000000005','24h','validating',1000000,1086400,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,0,0,NULL,NULL,NULL,'[]',NULL);
CREATE TABLE wordbound_files (
	number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	id VARCHAR(128) NOT NULL, 
	owner VARCHAR(256) NOT NULL, 
	purpose VARCHAR(32) NOT NULL, 
	filename TEXT NOT NULL, 
	num_bytes BIGINT NOT NULL, 
	created_at BIGINT NOT NULL, 
	expires_at BIGINT, 
	UNIQUE (id)
);
INSERT INTO "wordbound_files" VALUES(1,'file-00000000000000000000000000000001','default','batch','in.jsonl',153,1000000,2000000);
INSERT INTO "wordbound_files" VALUES(2,'file-4c60b88f36df447d71479a6513d8b527','anna','batch_output','batch_00000000000000000000000000000001_output.jsonl',223,1000000,1003600);
INSERT INTO "wordbound_files" VALUES(3,'file-00000000000000000000000000000002','default','batch','in.jsonl',618,1000000,2000000);
INSERT INTO "wordbound_files" VALUES(4,'file-00000000000000000000000000000003','default','batch','in.jsonl',154,1000000,2000000);
INSERT INTO "wordbound_files" VALUES(5,'file-00000000000000000000000000000004','default','batch','in.jsonl',155,1000000,2000000);
INSERT INTO "wordbound_files" VALUES(6,'file-00000000000000000000000000000005','default','batch','in.jsonl',154,1000000,2000000);
CREATE TABLE wordbound_results (
	batch BIGINT NOT NULL, 
	line BIGINT NOT NULL, 
	is_error BOOLEAN NOT NULL, 
	record TEXT NOT NULL, 
	PRIMARY KEY (batch, line)
);
INSERT INTO "wordbound_results" VALUES(2,2,1,'{"id":"batch_req_b201ada61ca5f7f61bbe701951b4bb12","custom_id":null,"response":null,"error":{"code":"invalid_json_line","message":"Line 2: it is not valid JSON: it ends too early, at column 1.","line":2,"param":null}}');
INSERT INTO "wordbound_results" VALUES(2,1,0,'{"id":"batch_req_66eab32d91793f0e76c24e0f3b8b929d","custom_id":"row-1","response":{"status_code":200,"request_id":"batch_req_66eab32d91793f0e76c24e0f3b8b929d","body":{"object":"chat.completion","text":"one"}},"error":null}');
CREATE TABLE wordbound_schema (
	id INTEGER NOT NULL, 
	version INTEGER NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "wordbound_schema" VALUES(1,1);
CREATE INDEX ix_wordbound_files_expires_at ON wordbound_files (expires_at);
CREATE INDEX wordbound_files_of_owner ON wordbound_files (owner, number);
CREATE INDEX wordbound_batches_of_owner ON wordbound_batches (owner, kind, number);
CREATE INDEX ix_wordbound_batches_status ON wordbound_batches (status);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('wordbound_files',6);
INSERT INTO "sqlite_sequence" VALUES('wordbound_batches',5);
COMMIT;
