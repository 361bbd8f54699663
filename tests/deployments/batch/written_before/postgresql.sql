CREATE TABLE public.wordbound_attempts (
    batch bigint NOT NULL,
    line bigint NOT NULL,
    attempts integer NOT NULL
);
CREATE TABLE public.wordbound_batches (
    number bigint NOT NULL,
    id character varying(128) NOT NULL,
    owner character varying(256) NOT NULL,
    kind character varying(32) NOT NULL,
    endpoint text NOT NULL,
    input_file_id character varying(128) NOT NULL,
    completion_window character varying(64) NOT NULL,
    status character varying(32) NOT NULL,
    created_at bigint NOT NULL,
    deadline bigint NOT NULL,
    in_progress_at bigint,
    finalizing_at bigint,
    completed_at bigint,
    failed_at bigint,
    expired_at bigint,
    cancelling_at bigint,
    cancelled_at bigint,
    total bigint NOT NULL,
    completed bigint NOT NULL,
    failed bigint NOT NULL,
    output_file_id character varying(128),
    error_file_id character varying(128),
    metadata json,
    errors json NOT NULL,
    output_expires_after_s bigint
);
CREATE SEQUENCE public.wordbound_batches_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.wordbound_batches_number_seq OWNED BY public.wordbound_batches.number;
CREATE TABLE public.wordbound_files (
    number bigint NOT NULL,
    id character varying(128) NOT NULL,
    owner character varying(256) NOT NULL,
    purpose character varying(32) NOT NULL,
    filename text NOT NULL,
    num_bytes bigint NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint
);
CREATE SEQUENCE public.wordbound_files_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.wordbound_files_number_seq OWNED BY public.wordbound_files.number;
CREATE TABLE public.wordbound_results (
    batch bigint NOT NULL,
    line bigint NOT NULL,
    is_error boolean NOT NULL,
    record text NOT NULL
);
CREATE TABLE public.wordbound_schema (
    id integer NOT NULL,
    version integer NOT NULL
);
ALTER TABLE ONLY public.wordbound_batches ALTER COLUMN number SET DEFAULT nextval('public.wordbound_batches_number_seq'::regclass);
ALTER TABLE ONLY public.wordbound_files ALTER COLUMN number SET DEFAULT nextval('public.wordbound_files_number_seq'::regclass);
INSERT INTO public.wordbound_attempts VALUES (2, 3, 1);
INSERT INTO public.wordbound_batches VALUES (1, 'batch_00000000000000000000000000000001', 'anna', 'batch', '/v1/chat/completions', 'file-00000000000000000000000000000001', '24h', 'completed', 1000000, 1086400, 1000000, 1000000, 1000000, NULL, NULL, NULL, NULL, 1, 1, 0, 'file-4c60b88f36df447d71479a6513d8b527', NULL, '{"f\u00fcr": "wen \u8bcd"}', '[]', 3600);
INSERT INTO public.wordbound_batches VALUES (2, 'batch_00000000000000000000000000000002', 'anna', 'batch', '/v1/chat/completions', 'file-00000000000000000000000000000002', '24h', 'in_progress', 1000000, 1086400, 1000000, NULL, NULL, NULL, NULL, NULL, NULL, 5, 1, 1, NULL, NULL, '{"run": "7"}', '[]', NULL);
INSERT INTO public.wordbound_batches VALUES (3, 'job_33333333333333333333333333333333', 'default', 'job', '/v1/chat/completions', 'file-00000000000000000000000000000003', '24h', 'validating', 1000000, 1086400, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, NULL, NULL, NULL, '[]', NULL);
INSERT INTO public.wordbound_batches VALUES (5, 'batch_00000000000000000000000000000005', 'bert', 'batch', '/v1/chat/completions', 'file-00000000000000000000000000000005', '24h', 'validating', 1000000, 1086400, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, NULL, NULL, NULL, '[]', NULL);
INSERT INTO public.wordbound_batches VALUES (4, 'batch_00000000000000000000000000000004', 'anna', 'other', '/v1/chat/completions', 'file-00000000000000000000000000000004', '24h', 'validating', 1000000, 1086400, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, NULL, NULL, NULL, '[]', NULL);
INSERT INTO public.wordbound_files VALUES (1, 'file-00000000000000000000000000000001', 'default', 'batch', 'in.jsonl', 153, 1000000, 2000000);
INSERT INTO public.wordbound_files VALUES (2, 'file-4c60b88f36df447d71479a6513d8b527', 'anna', 'batch_output', 'batch_00000000000000000000000000000001_output.jsonl', 223, 1000000, 1003600);
INSERT INTO public.wordbound_files VALUES (3, 'file-00000000000000000000000000000002', 'default', 'batch', 'in.jsonl', 618, 1000000, 2000000);
INSERT INTO public.wordbound_files VALUES (4, 'file-00000000000000000000000000000003', 'default', 'batch', 'in.jsonl', 154, 1000000, 2000000);
INSERT INTO public.wordbound_files VALUES (5, 'file-00000000000000000000000000000004', 'default', 'batch', 'in.jsonl', 155, 1000000, 2000000);
INSERT INTO public.wordbound_files VALUES (6, 'file-00000000000000000000000000000005', 'default', 'batch', 'in.jsonl', 154, 1000000, 2000000);
INSERT INTO public.wordbound_results VALUES (2, 2, true, '{"id":"batch_req_b201ada61ca5f7f61bbe701951b4bb12","custom_id":null,"response":null,"error":{"code":"invalid_json_line","message":"Line 2: it is not valid JSON: it ends too early, at column 1.","line":2,"param":null}}');
INSERT INTO public.wordbound_results VALUES (2, 1, false, '{"id":"batch_req_66eab32d91793f0e76c24e0f3b8b929d","custom_id":"row-1","response":{"status_code":200,"request_id":"batch_req_66eab32d91793f0e76c24e0f3b8b929d","body":{"object":"chat.completion","text":"one"}},"error":null}');
INSERT INTO public.wordbound_schema VALUES (1, 1);
SELECT pg_catalog.setval('public.wordbound_batches_number_seq', 5, true);
SELECT pg_catalog.setval('public.wordbound_files_number_seq', 6, true);
ALTER TABLE ONLY public.wordbound_attempts
    ADD CONSTRAINT wordbound_attempts_pkey PRIMARY KEY (batch, line);
ALTER TABLE ONLY public.wordbound_batches
    ADD CONSTRAINT wordbound_batches_id_key UNIQUE (id);
ALTER TABLE ONLY public.wordbound_batches
    ADD CONSTRAINT wordbound_batches_pkey PRIMARY KEY (number);
ALTER TABLE ONLY public.wordbound_files
    ADD CONSTRAINT wordbound_files_id_key UNIQUE (id);
ALTER TABLE ONLY public.wordbound_files
    ADD CONSTRAINT wordbound_files_pkey PRIMARY KEY (number);
ALTER TABLE ONLY public.wordbound_results
    ADD CONSTRAINT wordbound_results_pkey PRIMARY KEY (batch, line);
ALTER TABLE ONLY public.wordbound_schema
    ADD CONSTRAINT wordbound_schema_pkey PRIMARY KEY (id);
CREATE INDEX ix_wordbound_batches_status ON public.wordbound_batches USING btree (status);
CREATE INDEX ix_wordbound_files_expires_at ON public.wordbound_files USING btree (expires_at);
CREATE INDEX wordbound_batches_of_owner ON public.wordbound_batches USING btree (owner, kind, number);
CREATE INDEX wordbound_files_of_owner ON public.wordbound_files USING btree (owner, number);
