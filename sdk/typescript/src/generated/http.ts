// Generated from schema/v1.openapi.json by `npm run generate`. Do not edit.

export type paths = Record<string, never>;
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description A prompt that is recorded and will run. */
        Accepted: {
            /** @description Its id; `prompt_finished` names it. */
            promptId: components["schemas"]["PromptId"];
            /** @description Whether it waits behind others. */
            queued: boolean;
            /**
             * Format: uint32
             * @description Its place among those that wait, from 1; 0 when it runs at once.
             */
            position: number;
        };
        /** @description An answer, in the form of the kind of request that it answers. */
        Answer: {
            /** @constant */
            answer: "allow_once";
        } | {
            /** @constant */
            answer: "allow_always";
            /** @description The rule to keep; the narrowest suggestion by default. */
            rule?: string | null;
            persist?: components["schemas"]["Persist"];
        } | {
            /** @constant */
            answer: "deny";
            feedback?: string | null;
        } | {
            answer: {
                /** @description Ids or labels of the chosen options. */
                answers?: string[];
                other?: string | null;
            };
        } | {
            answer: {
                /** @constant */
                dismissed: true;
            };
        } | {
            answer: {
                /** @constant */
                approved: true;
                mode?: components["schemas"]["Mode"];
            };
        } | {
            answer: {
                /** @constant */
                approved: false;
                feedback?: string | null;
            };
        };
        /** @description What the model answered, whole. */
        AssistantMessageEvent: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "assistant_message";
            /** @description Its id. */
            messageId: components["schemas"]["MessageId"];
            /** @description What it says. */
            content: components["schemas"]["Block"][];
            /** @description Why the model stopped. */
            stopReason: components["schemas"]["StopReason"];
            /** @description The session. */
            sessionId: components["schemas"]["SessionId"];
            /** @description The position in the log; absent on deltas. */
            seq?: components["schemas"]["Seq"];
            /** @description When it happened. */
            ts: components["schemas"]["Timestamp"];
        };
        /** @description An image, or a file of the session's workspace. */
        Attachment: {
            /** @constant */
            type: "image";
            /** @enum {string} */
            mimeType: "image/png" | "image/jpeg" | "image/gif" | "image/webp";
            /** @description The bytes in standard base64 with padding. */
            data: string;
        } | {
            /** @constant */
            type: "file";
            /** @description Absolute, or relative to the session's folder. Read when the prompt is accepted. */
            path: string;
        };
        /** @description One piece of a message. */
        Block: {
            /** @constant */
            type: "text";
            /** @description The text. */
            text: string;
            /** @description The provider's seal, where it signs text. */
            signed?: components["schemas"]["Signed"];
        } | {
            /** @constant */
            type: "thinking";
            /** @description The thought, or its summary; may be empty where the provider keeps it. */
            text: string;
            /** @description The provider's seal. */
            signed?: components["schemas"]["Signed"];
        } | {
            /** @constant */
            type: "redacted_thinking";
            /** @description The provider's sealed data. */
            signed: components["schemas"]["Signed"];
        } | {
            /** @constant */
            type: "tool_use";
            /** @description Unique within the session. */
            id: components["schemas"]["ToolCallId"];
            /** @description The tool's name as the model wrote it. */
            name: string;
            /** @description The arguments; empty where `malformed` says that they could not be read. */
            input: {
                [key: string]: unknown;
            };
            /** @description The arguments as written, where they were not a JSON object. Such a call never runs. */
            malformed?: string;
            /** @description The provider's seal, where it signs calls. */
            signed?: components["schemas"]["Signed"];
        } | {
            /** @constant */
            type: "tool_result";
            /** @description The call. */
            id: components["schemas"]["ToolCallId"];
            /** @description The tool's name. */
            name: string;
            /** @description Text and images. */
            content: components["schemas"]["Block"][];
            /** @description Whether the call failed. */
            isError: boolean;
        } | components["schemas"]["Image"];
        /** @description How one of them is. */
        Check: "ok" | "failed";
        /** @description A checkpoint for people: the files before a turn's first change. */
        Checkpoint: {
            /** @description Its id. */
            id: components["schemas"]["CheckpointId"];
            /** @description When it was made. */
            createdAt: components["schemas"]["Timestamp"];
            /** @description The message of the prompt whose turn came after it. */
            messageId: components["schemas"]["MessageId"];
            /** @description What the turn was about, for people. */
            label: string;
            /**
             * Format: uint64
             * @description How many entries the captured tree has.
             */
            files: number;
        };
        /** @description The files were captured before a turn's first change. */
        CheckpointEvent: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "checkpoint";
            /** @description The checkpoint. */
            checkpoint: components["schemas"]["Checkpoint"];
            /** @description The captured tree. */
            tree: components["schemas"]["TreeId"];
            /** @description What is not in it, one sentence each. */
            leftOut?: string[];
            /** @description The session. */
            sessionId: components["schemas"]["SessionId"];
            /** @description The position in the log; absent on deltas. */
            seq?: components["schemas"]["Seq"];
            /** @description When it happened. */
            ts: components["schemas"]["Timestamp"];
        };
        /** @description A point that a session can go back to: before one of its prompts. */
        CheckpointId: string;
        /** @description A point that a session can go back to: before one of its prompts. */
        CheckpointState: {
            /** @description Its id. */
            id: components["schemas"]["CheckpointId"];
            /** @description When the prompt after it began. */
            createdAt: components["schemas"]["Timestamp"];
            /** @description The message of that prompt. */
            messageId: components["schemas"]["MessageId"];
            /** @description The first line of that prompt. */
            label: string;
            /**
             * Format: uint64
             * @description How many paths that prompt changed.
             */
            files: number;
            /** @description Whether the files were captured, so that they can be brought back. */
            hasFiles: boolean;
            /** @description Whether what the prompt did to the files was taken back. */
            undone: boolean;
            /** @description Whether the model reads of it no more, because somebody went back beyond it. */
            removed: boolean;
        };
        /** @description Checkpoints, oldest first. */
        Checkpoints: {
            /** @description The checkpoints. */
            checkpoints: components["schemas"]["CheckpointState"][];
        };
        /** @description What readiness depends on. */
        Checks: {
            /** @description Whether the store takes writes. */
            store: components["schemas"]["Check"];
        };
        /** @description A slash command. */
        Command: {
            /** @description Its name, without the slash. */
            name: string;
            /** @description What it does, in one line. */
            description: string;
            /** @description What may follow it. */
            argumentHint?: string;
            /** @description Where it comes from: `builtin`. */
            source: string;
        };
        /** @description Slash commands. */
        Commands: {
            /** @description The commands. */
            commands: components["schemas"]["Command"][];
        };
        /** @description Older messages were summarised. */
        CompactedEvent: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "compacted";
            /**
             * Format: uint64
             * @description Tokens before.
             */
            before: number;
            /**
             * Format: uint64
             * @description Tokens after.
             */
            after: number;
            /** @description Whether Narthex decided it, not a person. */
            automatic: boolean;
            /**
             * @description The last position that the summary stands for.
             * @default 0
             */
            through: components["schemas"]["Seq"];
            /** @description The prompt that is kept word for word after the summary, where it lies before `through`. */
            kept?: components["schemas"]["Seq"];
            /**
             * @description What the model reads in place of everything up to `through`.
             * @default
             */
            summary: string;
            /** @description Whether the summary was put together without a model, because none could write it. */
            mechanical?: boolean;
            /** @description The session. */
            sessionId: components["schemas"]["SessionId"];
            /** @description The position in the log; absent on deltas. */
            seq?: components["schemas"]["Seq"];
            /** @description When it happened. */
            ts: components["schemas"]["Timestamp"];
        };
        /** @description A session to create or to resume. Every field may be left out. */
        CreateSession: {
            /**
             * @description The working folder, absolute or relative to the first root; the first root by default.
             *     Links are resolved, and what they lead to has to be inside a root.
             */
            cwd?: string | null;
            /** @description The permission mode; the server's default where absent. */
            mode?: components["schemas"]["Mode"] | null;
            /** @description The model, `provider/model`; the server's default where absent. */
            model?: string | null;
            /** @description The stored session to open instead of a new one. */
            resume?: string | null;
            /** @description A title; the first line of the first prompt by default. */
            title?: string | null;
            /** @description Text after the system prompt. */
            appendSystemPrompt?: string | null;
            /** @description Rules that allow calls, within what policy allows. */
            allow?: string[] | null;
            /** @description Rules that deny calls. */
            deny?: string[] | null;
            /**
             * @description What keeps the session apart: `namespace` for a sandbox of its own over the folder, `host`
             *     for none; the server's default where absent. A stored session keeps what it has.
             */
            sandbox?: components["schemas"]["NeuronDriver"] | null;
            /** @description Whether MCP servers are started. This version has none: nothing is started either way. */
            mcp?: boolean | null;
        };
        /** @description Who decided. */
        DecidedBy: "client" | "timeout" | "interrupt" | "policy";
        /** @description Who refused a call. */
        DeniedBy: "rule" | "user" | "policy" | "timeout" | "mode" | "checks" | "host" | "hook" | "budget" | "nobody";
        /** @description What people are shown beside a result; the model does not read it. */
        Display: {
            /** @constant */
            kind: "diff";
            /** @description The diff, at most 64 KiB. */
            diff: string;
            /**
             * Format: uint32
             * @description Lines added.
             */
            added: number;
            /**
             * Format: uint32
             * @description Lines removed.
             */
            removed: number;
        } | {
            /** @constant */
            kind: "exit";
            /**
             * Format: int32
             * @description Its exit code, where it ended by itself.
             */
            code?: number;
            /**
             * Format: int32
             * @description The signal that ended it.
             */
            signal?: number;
        } | {
            /** @constant */
            kind: "note";
            /** @description The fact. */
            text: string;
        };
        /** @description The turn is over. Exactly one per turn. */
        DoneEvent: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "done";
            /** @description Why it ended. */
            reason: components["schemas"]["TurnEnd"];
            /** @description A stable code that says more about `error`, for example `context_overflow`. */
            code?: string;
            /** @description For people: what went wrong and what to do about it. */
            message?: string;
            /** @description The tokens of all steps. */
            usage: components["schemas"]["Usage"];
            /**
             * Format: double
             * @description The price of all steps in US dollars; absent where one is not known.
             */
            costUsd?: number;
            /**
             * Format: uint32
             * @description How many steps were taken.
             */
            turns: number;
            /**
             * Format: uint64
             * @description How long it took, in milliseconds.
             */
            durationMs: number;
            /** @description The text of the last answer. */
            text: string;
            /**
             * Format: uint32
             * @description How many calls were refused because nobody could be asked or answered in time.
             */
            unanswered?: number;
            /** @description The last answer as JSON, where the prompt asked for that and it fits. */
            structured?: unknown;
            /** @description The session. */
            sessionId: components["schemas"]["SessionId"];
            /** @description The position in the log; absent on deltas. */
            seq?: components["schemas"]["Seq"];
            /** @description When it happened. */
            ts: components["schemas"]["Timestamp"];
        };
        /** @description What a call may do; a call has the highest effect of its parts. The order matters. */
        Effect: "read" | "interact" | "write" | "execute" | "network" | "destructive";
        /** @description The body of every answer that says no. */
        ErrorBody: {
            /** @description What went wrong. */
            error: components["schemas"]["ErrorDetail"];
        };
        /** @description What went wrong. */
        ErrorDetail: {
            /** @description A stable code for programs. */
            code: string;
            /** @description One sentence for people: what was wrong and what would be right. */
            message: string;
            /** @description The request, as the log and the `x-request-id` header name it. */
            requestId: string;
        };
        /** @description What a frame of the multiplexed stream holds. */
        FeedEvent: components["schemas"]["SnapshotStart"] | components["schemas"]["SessionState"] | components["schemas"]["SnapshotEnd"] | components["schemas"]["UsageEvent"] | components["schemas"]["PermissionRequestEvent"] | components["schemas"]["QuestionRequestEvent"] | components["schemas"]["PlanRequestEvent"] | components["schemas"]["RequestResolvedEvent"];
        /** @description What a session does, or that it is not open any more. */
        FeedState: "idle" | "running" | "waiting" | "closed";
        /** @description The contents of a file as a tool saw or left them: a fact that later edits are held against. */
        FileStamp: {
            /** @description The real path. */
            path: string;
            /** @description The first 32 hexadecimal digits of the SHA-256 of the contents; absent when it is gone. */
            hash?: string;
        };
        /** @description A finding of a check. */
        Finding: {
            /** @description The rule of the check that it breaks. */
            ruleId: string;
            /** @description How bad it is, in the check's own words, for example `error`. */
            severity: string;
            /** @description What was found. */
            message: string;
            /** @description Where. */
            path?: string;
            /**
             * Format: uint64
             * @description The line, from 1.
             */
            line?: number;
            /**
             * @description Whether it refuses the call, whatever any answer says.
             * @default false
             */
            blocking: boolean;
        };
        /** @description Where a copy ends. */
        Fork: {
            /** @description The last message of the copy; the session's end where absent. */
            messageId?: string | null;
        };
        /** @description Whether the server is there. Without a valid token only `status`. */
        Health: {
            /** @description `ok`, or `stopping` with status 503. */
            status: components["schemas"]["HealthStatus"];
            /** @description The version of the program. */
            version?: string;
            /**
             * Format: uint64
             * @description Milliseconds since the server began.
             */
            uptimeMs?: number;
            /**
             * Format: uint
             * @description How many sessions are open.
             */
            sessions?: number;
        };
        /** @description How the server is. */
        HealthStatus: "ok" | "stopping";
        /** @description An image, in base64. */
        Image: {
            /** @description `image/png`, `image/jpeg`, `image/gif` or `image/webp`. */
            mimeType: string;
            /** @description The bytes in standard base64. */
            data: string;
        };
        /** @description The kinds of interactions. */
        InteractionKind: "permission" | "question" | "plan";
        /** @description How to stop. */
        Interrupt: {
            /**
             * @description Whether the prompts that wait are dropped as well. Does not go with `promptId`.
             * @default false
             */
            clearQueue?: boolean;
            /** @description The prompt to stop, or to withdraw where it waits; whatever runs where absent. */
            promptId?: string | null;
        };
        /** @description Whether a prompt was stopped. */
        Interrupted: {
            /** @description True when one ran. */
            interrupted: boolean;
        };
        /** @description How far a machine can keep neurons apart. */
        IsolationLevel: "none" | "partial" | "full";
        /** @description A path that was left as it is. */
        KeptPath: {
            /** @description The path. */
            path: string;
            /** @description Why. */
            reason: string;
        };
        /** @description One message. */
        Message: {
            /** @description Its id. */
            id: components["schemas"]["MessageId"];
            /** @description Who speaks. */
            role: components["schemas"]["Role"];
            /** @description What is said. */
            content: components["schemas"]["Block"][];
            /** @description When it was recorded. */
            createdAt: components["schemas"]["Timestamp"];
        };
        /** @description A message of the transcript. */
        MessageId: string;
        /** @description A part of the transcript, oldest first. */
        Messages: {
            /** @description The messages. */
            messages: components["schemas"]["Message"][];
            /** @description Whether there are more: `after` with the last one's id gives them. */
            hasMore: boolean;
        };
        /** @description What runs without asking when no rule decides. */
        Mode: "plan" | "ask" | "auto-edit" | "full-auto";
        /** @description The mode changed. */
        ModeChangedEvent: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "mode_changed";
            /** @description The new mode. */
            mode: components["schemas"]["Mode"];
            /** @description The session. */
            sessionId: components["schemas"]["SessionId"];
            /** @description The position in the log; absent on deltas. */
            seq?: components["schemas"]["Seq"];
            /** @description When it happened. */
            ts: components["schemas"]["Timestamp"];
        };
        /** @description A model that can be named. */
        Model: {
            /** @description Its full name, `provider/model`. */
            id: string;
            /** @description Its provider's name in the settings. */
            provider: string;
            /**
             * Format: uint64
             * @description How many tokens prompt and answer may have together.
             */
            contextWindow?: number;
            /** @description Whether sessions that name no model get it. */
            default: boolean;
        };
        /** @description The model changed. */
        ModelChangedEvent: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "model_changed";
            /** @description The new model. */
            model: string;
            /** @description The session. */
            sessionId: components["schemas"]["SessionId"];
            /** @description The position in the log; absent on deltas. */
            seq?: components["schemas"]["Seq"];
            /** @description When it happened. */
            ts: components["schemas"]["Timestamp"];
        };
        /** @description Models. */
        Models: {
            /** @description The models. */
            models: components["schemas"]["Model"][];
        };
        /** @description How a neuron is kept apart from the machine. */
        NeuronDriver: "host" | "namespace";
        /** @description A sandbox with a life of its own: 1 to 64 letters, digits, `_` and `-`. */
        NeuronId: string;
        /** @description Something a person should know. */
        NoticeEvent: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "notice";
            /** @description How loud. */
            level: components["schemas"]["NoticeLevel"];
            /** @description A stable code for programs. */
            code?: string;
            /** @description One or two sentences. */
            message: string;
            /** @description The session. */
            sessionId: components["schemas"]["SessionId"];
            /** @description The position in the log; absent on deltas. */
            seq?: components["schemas"]["Seq"];
            /** @description When it happened. */
            ts: components["schemas"]["Timestamp"];
        };
        /** @description How loud a notice is. */
        NoticeLevel: "info" | "warn" | "error";
        /** @description What was decided. */
        Outcome: "allow_once" | "allow_always" | "deny" | "answered" | "dismissed" | "approved" | "rejected";
        /** @description The JSON that the last answer of a turn must be. */
        OutputFormat: {
            /** @description A name for it: letters, digits, `_` and `-`, at most 64. */
            name?: string;
            /** @description The JSON Schema: at most 32 KiB. */
            schema: unknown;
            /** @description Whether an answer that does not fit makes the turn fail. */
            strict: boolean;
        };
        /** @description A stream of a process. */
        OutputStream: "stdout" | "stderr";
        /** @description What a question is about when it is not the model's. */
        PauseKind: "budget" | "repetition";
        /** @description A call waits for a person. */
        PermissionRequestEvent: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "permission_request";
            /** @description The interaction. */
            requestId: components["schemas"]["RequestId"];
            /** @description The call. */
            toolCallId: components["schemas"]["ToolCallId"];
            /** @description The tool. */
            toolName: string;
            /** @description What it may do; also in `target`. */
            effect: components["schemas"]["Effect"];
            /** @description What it is about. */
            target: components["schemas"]["Target"];
            /** @description The arguments. */
            input: {
                [key: string]: unknown;
            };
            /** @description Rules that would allow this and similar calls, narrowest first. */
            suggestedRules: string[];
            /** @description How much a person should think. */
            risk: components["schemas"]["Risk"];
            /** @description Why it is asked. */
            reason?: string;
            /**
             * @description Whether it would run, and is asked for only because such calls are reviewed in this
             *     session.
             */
            review?: boolean;
            /** @description The change as a unified diff, where it can be told beforehand; at most 64 KiB. */
            diff?: string;
            /** @description What checks found; none of it blocks. */
            checks?: components["schemas"]["Finding"][];
            /** @description When it becomes a denial; null when it waits for ever. */
            expiresAt: components["schemas"]["Timestamp"] | null;
            /** @description The session. */
            sessionId: components["schemas"]["SessionId"];
            /** @description The position in the log; absent on deltas. */
            seq?: components["schemas"]["Seq"];
            /** @description When it happened. */
            ts: components["schemas"]["Timestamp"];
        };
        /** @description How long a rule that was allowed for good is kept. */
        Persist: "session" | "project" | "user";
        /** @description A plan waits for approval. */
        PlanRequestEvent: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "plan_request";
            /** @description The interaction. */
            requestId: components["schemas"]["RequestId"];
            /** @description The call. */
            toolCallId: components["schemas"]["ToolCallId"];
            /** @description The plan, in Markdown. */
            plan: string;
            /** @description When it is rejected; null when it waits for ever. */
            expiresAt: components["schemas"]["Timestamp"] | null;
            /** @description The session. */
            sessionId: components["schemas"]["SessionId"];
            /** @description The position in the log; absent on deltas. */
            seq?: components["schemas"]["Seq"];
            /** @description When it happened. */
            ts: components["schemas"]["Timestamp"];
        };
        /** @description A prompt's turn is over; the last event that it causes. */
        PromptFinishedEvent: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "prompt_finished";
            /** @description The prompt. */
            promptId: components["schemas"]["PromptId"];
            /** @description What came of it. */
            result: components["schemas"]["TurnResult"];
            /** @description The session. */
            sessionId: components["schemas"]["SessionId"];
            /** @description The position in the log; absent on deltas. */
            seq?: components["schemas"]["Seq"];
            /** @description When it happened. */
            ts: components["schemas"]["Timestamp"];
        };
        /** @description A prompt: what sets off one turn. */
        PromptId: string;
        /** @description A prompt waits for its turn. */
        PromptQueuedEvent: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "prompt_queued";
            /** @description The prompt. */
            promptId: components["schemas"]["PromptId"];
            /**
             * Format: uint32
             * @description How many are before it, itself counted.
             */
            position: number;
            /** @description What was said. */
            content: components["schemas"]["Block"][];
            /**
             * Format: uint32
             * @description The limit of steps of its turn.
             */
            maxTurns?: number;
            /** @description The model of this turn alone. */
            model?: string;
            /** @description The JSON that the answer must be. */
            output?: components["schemas"]["OutputFormat"];
            /** @description The id of the request that brought the prompt. */
            requestId?: string;
            /** @description The session. */
            sessionId: components["schemas"]["SessionId"];
            /** @description The position in the log; absent on deltas. */
            seq?: components["schemas"]["Seq"];
            /** @description When it happened. */
            ts: components["schemas"]["Timestamp"];
        };
        /** @description A prompt's turn begins. */
        PromptStartedEvent: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "prompt_started";
            /** @description The prompt. */
            promptId: components["schemas"]["PromptId"];
            /** @description The message that it becomes in the transcript. */
            messageId: components["schemas"]["MessageId"];
            /** @description What was said. */
            content: components["schemas"]["Block"][];
            /**
             * Format: uint32
             * @description The limit of steps of this turn.
             */
            maxTurns?: number;
            /** @description The slash command that the prompt is; the runtime obeys it and no model reads it. */
            command?: string;
            /** @description The model of this turn alone. */
            model?: string;
            /** @description The JSON that the answer must be. */
            output?: components["schemas"]["OutputFormat"];
            /** @description The id of the request that brought the prompt. */
            requestId?: string;
            /** @description The session. */
            sessionId: components["schemas"]["SessionId"];
            /** @description The position in the log; absent on deltas. */
            seq?: components["schemas"]["Seq"];
            /** @description When it happened. */
            ts: components["schemas"]["Timestamp"];
        };
        /** @description An option of a question. */
        QuestionOption: {
            /** @description What an answer names. */
            id: string;
            /** @description What people read. */
            label: string;
            /** @description More about it. */
            description?: string;
        };
        /** @description A question waits for a person. */
        QuestionRequestEvent: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "question_request";
            /** @description The interaction. */
            requestId: components["schemas"]["RequestId"];
            /** @description The call that asks; absent where the runtime does. */
            toolCallId?: components["schemas"]["ToolCallId"];
            /** @description What the runtime asks about; absent where the model asks. */
            about?: components["schemas"]["PauseKind"];
            /** @description The question. */
            question: string;
            /** @description The options; an answer names their ids. */
            options: components["schemas"]["QuestionOption"][];
            /** @description Whether several may be chosen. */
            multiSelect: boolean;
            /** @description Whether words of one's own are an answer too. */
            allowOther: boolean;
            /** @description When it is dismissed; null when it waits for ever. */
            expiresAt: components["schemas"]["Timestamp"] | null;
            /** @description The session. */
            sessionId: components["schemas"]["SessionId"];
            /** @description The position in the log; absent on deltas. */
            seq?: components["schemas"]["Seq"];
            /** @description When it happened. */
            ts: components["schemas"]["Timestamp"];
        };
        /** @description Whether the server can work. */
        Readiness: {
            /** @description `ready` with status 200, else `unready` or `stopping` with 503. */
            status: components["schemas"]["ReadyStatus"];
            /** @description What was looked at. */
            checks: components["schemas"]["Checks"];
        };
        /** @description Whether requests should come here. */
        ReadyStatus: "ready" | "unready" | "stopping";
        /** @description Events were left out. No point to resume from. */
        ReplayGap: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "replay_gap";
            /**
             * Format: uint64
             * @description The first id that is left out.
             */
            from: number;
            /**
             * Format: uint64
             * @description The last id that is left out.
             */
            to: number;
            /**
             * Format: uint64
             * @description How many recorded events are left out.
             */
            dropped: number;
        };
        /** @description A request that waits for an answer. */
        Request: components["schemas"]["PermissionRequestEvent"] | components["schemas"]["QuestionRequestEvent"] | components["schemas"]["PlanRequestEvent"];
        /** @description An interaction that waits for an answer. */
        RequestId: string;
        /** @description An interaction was decided. */
        RequestResolvedEvent: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "request_resolved";
            /** @description The interaction. */
            requestId: components["schemas"]["RequestId"];
            /** @description Its kind. */
            kind: components["schemas"]["InteractionKind"];
            /** @description What was decided. */
            outcome: components["schemas"]["Outcome"];
            /** @description Who decided. */
            by: components["schemas"]["DecidedBy"];
            /** @description The rule that was allowed for good. */
            rule?: string;
            /** @description For how long. */
            persist?: components["schemas"]["Persist"];
            /** @description The ids of the chosen options. */
            answers?: string[];
            /** @description Words that came with the answer: feedback, or an answer of one's own. */
            words?: string;
            /** @description The mode that a plan was approved for. */
            mode?: components["schemas"]["Mode"];
            /** @description The session. */
            sessionId: components["schemas"]["SessionId"];
            /** @description The position in the log; absent on deltas. */
            seq?: components["schemas"]["Seq"];
            /** @description When it happened. */
            ts: components["schemas"]["Timestamp"];
        };
        /** @description Requests that wait for an answer, oldest first. */
        Requests: {
            /** @description The requests, as the event stream shows them. */
            requests: components["schemas"]["Request"][];
        };
        /** @description The provider is in trouble and is asked again. */
        RetryEvent: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "retry";
            /**
             * Format: uint32
             * @description How many attempts have failed.
             */
            attempt: number;
            /**
             * Format: uint32
             * @description The limit of attempts; 0 where time is the limit.
             */
            maxAttempts: number;
            /**
             * Format: uint64
             * @description How long until the next attempt, in milliseconds.
             */
            delayMs: number;
            /** @description What the provider said, truthfully labelled. */
            reason: string;
            /** @description The text that had come before the stream broke. */
            partialText?: string;
            /** @description The session. */
            sessionId: components["schemas"]["SessionId"];
            /** @description The position in the log; absent on deltas. */
            seq?: components["schemas"]["Seq"];
            /** @description When it happened. */
            ts: components["schemas"]["Timestamp"];
        };
        /** @description Where to go back to. */
        Rewind: {
            /** @description The checkpoint. */
            checkpointId: string;
            /**
             * @description What goes back.
             * @default both
             */
            scope?: components["schemas"]["RewindScope"];
            /**
             * @description Whether paths that hold something else than the agent left are brought back as well.
             * @default false
             */
            force?: boolean;
            /**
             * @description Whether only to look what would happen.
             * @default false
             */
            dryRun?: boolean;
        };
        /** @description What came of going back. */
        RewindResult: {
            /** @description The checkpoint. */
            checkpoint: components["schemas"]["CheckpointState"];
            /** @description The paths that hold their older state again. */
            filesChanged: string[];
            /** @description The paths that were left as they are; `force` brings them back as well. */
            filesKept: components["schemas"]["KeptPath"][];
            /** @description What cannot be brought back at all, one sentence each. */
            notes: string[];
            /**
             * Format: uint64
             * @description How many messages the model reads no more.
             */
            messagesRemoved: number;
        };
        /** @description What a person went back in. */
        RewindScope: "both" | "conversation" | "files";
        /** @description How much a person should think before allowing a call. */
        Risk: "low" | "medium" | "high";
        /** @description Who speaks. */
        Role: "user" | "assistant" | "tool";
        /** @description Something to say to the agent. */
        SendPrompt: {
            /** @description What is said. One that begins with `/name` of a listed command runs that command. */
            text: string;
            /** @description What comes with it, after the text. */
            attachments?: components["schemas"]["Attachment"][] | null;
        };
        /**
         * Format: uint64
         * @description A position in a session's log: dense, from 1. `Seq(0)` is before the first event.
         */
        Seq: number;
        /** @description A session. In a list of stored ones `lastEventId`, `queued` and `pendingRequests` are 0. */
        Session: {
            /** @description Its id. */
            id: components["schemas"]["SessionId"];
            /** @description Its working folder, with links resolved. */
            cwd: string;
            /** @description Its permission mode. */
            mode: components["schemas"]["Mode"];
            /** @description Its model, `provider/model`. */
            model: string;
            /** @description Its title: given, or the first line of its first prompt. */
            title?: string;
            /** @description What it is doing. */
            state: components["schemas"]["State"];
            /**
             * Format: uint32
             * @description How many prompts wait for their turn.
             */
            queued: number;
            /** @description When it was created. */
            createdAt: components["schemas"]["Timestamp"];
            /** @description When its log last grew. */
            updatedAt: components["schemas"]["Timestamp"];
            /**
             * Format: uint64
             * @description The id of the newest event of its stream.
             */
            lastEventId: number;
            /**
             * Format: uint32
             * @description How many requests wait for an answer.
             */
            pendingRequests: number;
            /** @description What keeps it apart. Absent where it acts in a neuron that others made. */
            sandbox?: components["schemas"]["SessionSandbox"];
        };
        /** @description The session was closed. */
        SessionClosedEvent: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "session_closed";
            /** @description Why. */
            reason: components["schemas"]["SessionEnd"];
            /** @description The session. */
            sessionId: components["schemas"]["SessionId"];
            /** @description The position in the log; absent on deltas. */
            seq?: components["schemas"]["Seq"];
            /** @description When it happened. */
            ts: components["schemas"]["Timestamp"];
        };
        /** @description Why a session was closed. */
        SessionEnd: "closed" | "deleted" | "shutdown";
        /** @description What a frame of a session's stream holds. */
        SessionEvent: components["schemas"]["SessionStartEvent"] | components["schemas"]["TurnStartEvent"] | components["schemas"]["TextDeltaEvent"] | components["schemas"]["ThinkingDeltaEvent"] | components["schemas"]["AssistantMessageEvent"] | components["schemas"]["ToolCallEvent"] | components["schemas"]["ToolProgressEvent"] | components["schemas"]["ToolResultEvent"] | components["schemas"]["ToolDeniedEvent"] | components["schemas"]["RetryEvent"] | components["schemas"]["CompactedEvent"] | components["schemas"]["CheckpointEvent"] | components["schemas"]["UsageEvent"] | components["schemas"]["NoticeEvent"] | components["schemas"]["ModeChangedEvent"] | components["schemas"]["ModelChangedEvent"] | components["schemas"]["PermissionRequestEvent"] | components["schemas"]["QuestionRequestEvent"] | components["schemas"]["PlanRequestEvent"] | components["schemas"]["RequestResolvedEvent"] | components["schemas"]["PromptQueuedEvent"] | components["schemas"]["PromptStartedEvent"] | components["schemas"]["PromptFinishedEvent"] | components["schemas"]["SessionUpdatedEvent"] | components["schemas"]["SessionClosedEvent"] | components["schemas"]["DoneEvent"] | components["schemas"]["ReplayGap"];
        /** @description A durable conversation. */
        SessionId: string;
        /**
         * @description The sandbox of a session that has a neuron of its own. It is as strong whenever the session is
         *     opened again.
         */
        SessionSandbox: {
            /** @description What keeps it apart. */
            driver: components["schemas"]["NeuronDriver"];
            /** @description How far. */
            isolation: components["schemas"]["IsolationLevel"];
            /** @description Where writes to its folder go. */
            writes: components["schemas"]["Writes"];
        };
        /** @description What a session has used. */
        SessionSpending: {
            /**
             * Format: uint64
             * @description Prompt tokens outside any cache.
             */
            inputTokens: number;
            /**
             * Format: uint64
             * @description Tokens that the model wrote, thinking included.
             */
            outputTokens: number;
            /**
             * Format: uint64
             * @description Those of `output_tokens` that the model thought with, where its provider says so; they are
             *     counted there as well.
             */
            reasoningTokens?: number;
            /**
             * Format: uint64
             * @description Prompt tokens read from a cache.
             */
            cacheReadTokens: number;
            /**
             * Format: uint64
             * @description Prompt tokens written into a cache.
             */
            cacheWriteTokens: number;
            /**
             * Format: double
             * @description The price in US dollars; absent where any of it is not known.
             */
            costUsd?: number;
            /**
             * Format: uint64
             * @description How many model calls there were.
             */
            turns: number;
            /**
             * Format: uint64
             * @description How many prompts there were.
             */
            prompts: number;
            /** @description The same by model. */
            byModel: {
                [key: string]: components["schemas"]["Spending"];
            };
        };
        /** @description The session opens: its folder, model, mode and tools. */
        SessionStartEvent: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "session_start";
            /** @description The working folder, with symbolic links resolved. */
            cwd: string;
            /** @description The model, `provider/model`. */
            model: string;
            /** @description The permission mode. */
            mode: components["schemas"]["Mode"];
            /** @description The names of the tools. */
            tools: string[];
            /** @description A title for people. */
            title?: string;
            /** @description The session that this one was forked or imported from. */
            parent?: components["schemas"]["SessionId"];
            /** @description Rules of the session that allow calls. */
            allow?: string[];
            /** @description Rules of the session that deny calls. */
            deny?: string[];
            /** @description The session's own text after the system prompt. */
            appendSystemPrompt?: string;
            /** @description The neuron that it acts in; `cwd` is a folder inside it. */
            neuron?: components["schemas"]["NeuronId"];
            /** @description What keeps the session apart, where that neuron is its own, made over `cwd`. */
            sandbox?: components["schemas"]["SessionSandbox"];
            /** @description Effects that are asked for, whatever the mode and the session's own rules allow. */
            asksFor?: components["schemas"]["Effect"][];
            /**
             * Format: uint32
             * @description The most steps of a prompt that says nothing of it.
             */
            maxTurns?: number;
            /** @description The session. */
            sessionId: components["schemas"]["SessionId"];
            /** @description The position in the log; absent on deltas. */
            seq?: components["schemas"]["Seq"];
            /** @description When it happened. */
            ts: components["schemas"]["Timestamp"];
        };
        /** @description How a session is now; whole, not only what changed. */
        SessionState: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "session_state";
            /** @description The session. */
            sessionId: components["schemas"]["SessionId"];
            /** @description What it is doing. */
            state: components["schemas"]["FeedState"];
            /**
             * Format: uint32
             * @description How many prompts wait for their turn.
             */
            queued: number;
            /**
             * Format: uint32
             * @description How many requests wait for an answer.
             */
            pendingRequests: number;
            /** @description Its permission mode. */
            mode: components["schemas"]["Mode"];
            /** @description Its model. */
            model: string;
            /** @description Its title. */
            title?: string;
            /** @description Its working folder. */
            cwd: string;
            /** @description When its log last grew. */
            updatedAt: components["schemas"]["Timestamp"];
            /** @description Why it was closed; with `closed` alone. */
            reason?: components["schemas"]["SessionEnd"];
        };
        /** @description Title or state changed. */
        SessionUpdatedEvent: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "session_updated";
            /** @description The new title. */
            title?: string;
            /** @description The session. */
            sessionId: components["schemas"]["SessionId"];
            /** @description The position in the log; absent on deltas. */
            seq?: components["schemas"]["Seq"];
            /** @description When it happened. */
            ts: components["schemas"]["Timestamp"];
        };
        /** @description Sessions, newest first. */
        Sessions: {
            /** @description The sessions. */
            sessions: components["schemas"]["Session"][];
        };
        /** @description A mode to change to. */
        SetMode: {
            /** @description The mode. */
            mode: components["schemas"]["Mode"];
        };
        /** @description A model to change to. */
        SetModel: {
            /** @description The model, `provider/model`. */
            model: string;
        };
        /** @description A provider's seal on a block. It is sent back byte for byte, or not at all. */
        Signed: {
            /** @description The wire that made the seal. */
            wire: components["schemas"]["Wire"];
            /** @description The seal: a signature, encrypted content, a thought signature. Opaque. */
            signature: string;
            /** @description Further fields of the provider's block that must go back with it (for example its id). */
            extra?: {
                [key: string]: unknown;
            };
        };
        /** @description A snapshot is whole. */
        SnapshotEnd: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "snapshot_end";
        };
        /** @description Why there is a snapshot. */
        SnapshotReason: "connected" | "gap";
        /** @description A snapshot begins: what it does not name is not open any more. */
        SnapshotStart: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "snapshot_start";
            /** @description Why there is one. */
            reason: components["schemas"]["SnapshotReason"];
        };
        /** @description Tokens and their price. */
        Spending: {
            /**
             * Format: uint64
             * @description Prompt tokens outside any cache.
             */
            inputTokens: number;
            /**
             * Format: uint64
             * @description Tokens that the model wrote, thinking included.
             */
            outputTokens: number;
            /**
             * Format: uint64
             * @description Those of `output_tokens` that the model thought with, where its provider says so; they are
             *     counted there as well.
             */
            reasoningTokens?: number;
            /**
             * Format: uint64
             * @description Prompt tokens read from a cache.
             */
            cacheReadTokens: number;
            /**
             * Format: uint64
             * @description Prompt tokens written into a cache.
             */
            cacheWriteTokens: number;
            /**
             * Format: double
             * @description The price in US dollars; absent where any of it is not known.
             */
            costUsd?: number;
        };
        /** @description What a session is doing. */
        State: "idle" | "running" | "waiting";
        /** @description Why a model stopped writing. */
        StopReason: "end_turn" | "tool_use" | "max_tokens" | "stop_sequence" | "pause_turn" | "refusal" | "interrupted";
        /** @description Whether a task was stopped. */
        Stopped: {
            /** @description True when it ran. */
            stopped: boolean;
        };
        /** @description The answer was taken. */
        Taken: {
            /** @description Always true. */
            ok: boolean;
        };
        /** @description What a call is about, for people. */
        Target: {
            /** @description One line: the path, the command, the address. */
            summary: string;
            /** @description What the call may do. */
            effect: components["schemas"]["Effect"];
            /** @description The real paths that it touches. */
            paths?: string[];
        };
        /** @description Something that runs beside the conversation. */
        Task: {
            /** @description Its id. */
            id: string;
            /** @description Its kind. */
            kind: components["schemas"]["TaskKind"];
            /** @description What it does. */
            title: string;
            /** @description How it is. */
            status: components["schemas"]["TaskStatus"];
            /** @description When it began. */
            startedAt: components["schemas"]["Timestamp"];
            /** @description When it ended. */
            endedAt?: components["schemas"]["Timestamp"];
        };
        /** @description Kinds of tasks. */
        TaskKind: "agent" | "shell";
        /** @description How a task is. */
        TaskStatus: "running" | "completed" | "failed" | "stopped";
        /** @description Tasks. */
        Tasks: {
            /** @description The tasks. */
            tasks: components["schemas"]["Task"][];
        };
        /** @description Live text. */
        TextDeltaEvent: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "text_delta";
            /** @description The piece. */
            text: string;
            /** @description The session. */
            sessionId: components["schemas"]["SessionId"];
            /** @description The position in the log; absent on deltas. */
            seq?: components["schemas"]["Seq"];
            /** @description When it happened. */
            ts: components["schemas"]["Timestamp"];
        };
        /** @description Live thinking. */
        ThinkingDeltaEvent: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "thinking_delta";
            /** @description The piece. */
            text: string;
            /** @description The session. */
            sessionId: components["schemas"]["SessionId"];
            /** @description The position in the log; absent on deltas. */
            seq?: components["schemas"]["Seq"];
            /** @description When it happened. */
            ts: components["schemas"]["Timestamp"];
        };
        /**
         * Format: date-time
         * @description RFC 3339 in UTC with milliseconds.
         */
        Timestamp: string;
        /** @description A call that passed the schema, with what it is about. */
        ToolCallEvent: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "tool_call";
            /** @description The call. */
            toolCallId: components["schemas"]["ToolCallId"];
            /** @description The tool's native name. */
            toolName: string;
            /** @description The arguments. */
            input: {
                [key: string]: unknown;
            };
            /** @description What it is about. */
            target: components["schemas"]["Target"];
            /** @description The session. */
            sessionId: components["schemas"]["SessionId"];
            /** @description The position in the log; absent on deltas. */
            seq?: components["schemas"]["Seq"];
            /** @description When it happened. */
            ts: components["schemas"]["Timestamp"];
        };
        /** @description A tool call, unique within its session. */
        ToolCallId: string;
        /** @description A call that was not run. */
        ToolDeniedEvent: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "tool_denied";
            /** @description The call. */
            toolCallId: components["schemas"]["ToolCallId"];
            /** @description The tool's name. */
            toolName: string;
            /** @description Why, as the model is told. */
            reason: string;
            /** @description Who refused it. */
            by: components["schemas"]["DeniedBy"];
            /** @description The session. */
            sessionId: components["schemas"]["SessionId"];
            /** @description The position in the log; absent on deltas. */
            seq?: components["schemas"]["Seq"];
            /** @description When it happened. */
            ts: components["schemas"]["Timestamp"];
        };
        /** @description Live output of a tool. */
        ToolProgressEvent: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "tool_progress";
            /** @description The call. */
            toolCallId: components["schemas"]["ToolCallId"];
            /** @description The piece. */
            text: string;
            /** @description Where it came from. */
            stream?: components["schemas"]["OutputStream"];
            /** @description The session. */
            sessionId: components["schemas"]["SessionId"];
            /** @description The position in the log; absent on deltas. */
            seq?: components["schemas"]["Seq"];
            /** @description When it happened. */
            ts: components["schemas"]["Timestamp"];
        };
        /** @description What a call brought. */
        ToolResultEvent: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "tool_result";
            /** @description The call. */
            toolCallId: components["schemas"]["ToolCallId"];
            /** @description The tool's native name. */
            toolName: string;
            /** @description Whether the call failed. */
            isError: boolean;
            /** @description What the model reads: text, at most 30,000 characters, and images. */
            output: components["schemas"]["Block"][];
            /** @description Whether `output` leaves something out. */
            truncated?: boolean;
            /** @description The file with the whole output, where `output` leaves something out. */
            spill?: string;
            /**
             * Format: uint64
             * @description How long it took, in milliseconds.
             */
            durationMs: number;
            /** @description What people are shown. */
            display?: components["schemas"]["Display"];
            /** @description The files that the call saw or left. */
            files?: components["schemas"]["FileStamp"][];
            /** @description The session. */
            sessionId: components["schemas"]["SessionId"];
            /** @description The position in the log; absent on deltas. */
            seq?: components["schemas"]["Seq"];
            /** @description When it happened. */
            ts: components["schemas"]["Timestamp"];
        };
        /** @description A captured tree of files: the hash of its manifest. */
        TreeId: string;
        /** @description Why a turn ended. */
        TurnEnd: "completed" | "interrupted" | "max_turns" | "budget" | "time" | "repetition" | "error" | "denied";
        /** @description What came of a turn. */
        TurnResult: {
            /** @description Why it ended. */
            reason: components["schemas"]["TurnEnd"];
            /** @description A stable code that says more about `error`, for example `context_overflow`. */
            code?: string;
            /** @description For people: what went wrong and what to do about it. */
            message?: string;
            /** @description The tokens of all steps. */
            usage: components["schemas"]["Usage"];
            /**
             * Format: double
             * @description The price of all steps in US dollars; absent where one is not known.
             */
            costUsd?: number;
            /**
             * Format: uint32
             * @description How many steps were taken.
             */
            turns: number;
            /**
             * Format: uint64
             * @description How long it took, in milliseconds.
             */
            durationMs: number;
            /** @description The text of the last answer. */
            text: string;
            /**
             * Format: uint32
             * @description How many calls were refused because nobody could be asked or answered in time.
             */
            unanswered?: number;
            /** @description The last answer as JSON, where the prompt asked for that and it fits. */
            structured?: unknown;
        };
        /** @description A step begins: one model call. */
        TurnStartEvent: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "turn_start";
            /**
             * Format: uint32
             * @description The number of the step within its prompt, from 1.
             */
            turn: number;
            /** @description The prompt that set it off. */
            promptId: components["schemas"]["PromptId"];
            /** @description The model that is asked. */
            model: string;
            /** @description The session. */
            sessionId: components["schemas"]["SessionId"];
            /** @description The position in the log; absent on deltas. */
            seq?: components["schemas"]["Seq"];
            /** @description When it happened. */
            ts: components["schemas"]["Timestamp"];
        };
        /** @description How to undo. */
        Undo: {
            /**
             * @description Whether paths that hold something else than the agent left are brought back as well.
             * @default false
             */
            force?: boolean;
            /**
             * @description Whether only to look what would happen.
             * @default false
             */
            dryRun?: boolean;
        };
        /** @description What came of an undo. */
        UndoResult: {
            /** @description Whether there was something to undo. */
            undone: boolean;
            /** @description The checkpoint before the change. */
            checkpoint?: components["schemas"]["CheckpointId"];
            /** @description The paths that hold their older state again. */
            filesChanged: string[];
            /** @description The paths that were left as they are; `force` brings them back as well. */
            filesKept: components["schemas"]["KeptPath"][];
            /** @description What cannot be brought back at all, one sentence each. */
            notes: string[];
        };
        /**
         * @description Tokens of one model call or a sum of them, normalised over providers.
         *
         *     `input_tokens` counts what was read neither from nor into a cache; the two cache fields count
         *     the rest of the prompt.
         */
        Usage: {
            /**
             * Format: uint64
             * @description Prompt tokens outside any cache.
             */
            inputTokens: number;
            /**
             * Format: uint64
             * @description Tokens that the model wrote, thinking included.
             */
            outputTokens: number;
            /**
             * Format: uint64
             * @description Those of `output_tokens` that the model thought with, where its provider says so; they are
             *     counted there as well.
             */
            reasoningTokens?: number;
            /**
             * Format: uint64
             * @description Prompt tokens read from a cache.
             */
            cacheReadTokens: number;
            /**
             * Format: uint64
             * @description Prompt tokens written into a cache.
             */
            cacheWriteTokens: number;
        };
        /** @description What one model call used. */
        UsageEvent: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "usage";
            /**
             * Format: uint64
             * @description Prompt tokens outside any cache.
             */
            inputTokens: number;
            /**
             * Format: uint64
             * @description Tokens that the model wrote, thinking included.
             */
            outputTokens: number;
            /**
             * Format: uint64
             * @description Those of `output_tokens` that the model thought with, where its provider says so; they are
             *     counted there as well.
             */
            reasoningTokens?: number;
            /**
             * Format: uint64
             * @description Prompt tokens read from a cache.
             */
            cacheReadTokens: number;
            /**
             * Format: uint64
             * @description Prompt tokens written into a cache.
             */
            cacheWriteTokens: number;
            /**
             * Format: double
             * @description The price in US dollars; absent where it is not known.
             */
            costUsd?: number;
            /** @description The model. */
            model?: string;
            /** @description What the call was for, where it was no step of the turn: `compaction`. */
            purpose?: string;
            /** @description The session. */
            sessionId: components["schemas"]["SessionId"];
            /** @description The position in the log; absent on deltas. */
            seq?: components["schemas"]["Seq"];
            /** @description When it happened. */
            ts: components["schemas"]["Timestamp"];
        };
        /** @description The language of a provider. Signed blocks go back only to the wire that made them. */
        Wire: "anthropic" | "openai-responses" | "openai-chat" | "gemini" | "scripted";
        /** @description Where the writes to a neuron's folder go. */
        Writes: "overlay" | "folder";
    };
    responses: {
        /** @description `bad_request`: the request is broken as HTTP: no Host, or two; `validation_error`: a field is wrong; the message begins with its path and says what would be right. */
        BadRequestOrValidationError: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "error": {
                 *         "code": "bad_request",
                 *         "message": "the request is broken as HTTP: no Host, or two",
                 *         "requestId": "0193a1f0-7c9e-7b52-8d41-5f2f3c1a9e77"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["ErrorBody"] & {
                    error?: {
                        /** @enum {unknown} */
                        code?: "bad_request" | "validation_error";
                    };
                };
            };
        };
        /** @description `bad_request`: the request is broken as HTTP: no Host, or two; `validation_error`: a field is wrong; the message begins with its path and says what would be right; `invalid_model`: the model's name resolves to nothing. */
        BadRequestOrValidationErrorOrInvalidModel: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "error": {
                 *         "code": "bad_request",
                 *         "message": "the request is broken as HTTP: no Host, or two",
                 *         "requestId": "0193a1f0-7c9e-7b52-8d41-5f2f3c1a9e77"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["ErrorBody"] & {
                    error?: {
                        /** @enum {unknown} */
                        code?: "bad_request" | "validation_error" | "invalid_model";
                    };
                };
            };
        };
        /** @description `forbidden_host`: the Host header names no loopback address; `forbidden_origin`: a page of another origin asks. */
        ForbiddenHostOrForbiddenOrigin: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "error": {
                 *         "code": "forbidden_host",
                 *         "message": "the Host header names no loopback address",
                 *         "requestId": "0193a1f0-7c9e-7b52-8d41-5f2f3c1a9e77"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["ErrorBody"] & {
                    error?: {
                        /** @enum {unknown} */
                        code?: "forbidden_host" | "forbidden_origin";
                    };
                };
            };
        };
        /** @description `forbidden_host`: the Host header names no loopback address; `forbidden_origin`: a page of another origin asks; `cwd_outside_roots`: the folder is inside none of the roots. */
        ForbiddenHostOrForbiddenOriginOrCwdOutsideRoots: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "error": {
                 *         "code": "forbidden_host",
                 *         "message": "the Host header names no loopback address",
                 *         "requestId": "0193a1f0-7c9e-7b52-8d41-5f2f3c1a9e77"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["ErrorBody"] & {
                    error?: {
                        /** @enum {unknown} */
                        code?: "forbidden_host" | "forbidden_origin" | "cwd_outside_roots";
                    };
                };
            };
        };
        /** @description `forbidden_host`: the Host header names no loopback address; `forbidden_origin`: a page of another origin asks; `cwd_outside_roots`: the folder is inside none of the roots; `locked_by_policy`: policy locks the setting; `model_not_allowed`: policy does not allow the model. */
        ForbiddenHostOrForbiddenOriginOrCwdOutsideRootsOrLockedByPolicyOrModelNotAllowed: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "error": {
                 *         "code": "forbidden_host",
                 *         "message": "the Host header names no loopback address",
                 *         "requestId": "0193a1f0-7c9e-7b52-8d41-5f2f3c1a9e77"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["ErrorBody"] & {
                    error?: {
                        /** @enum {unknown} */
                        code?: "forbidden_host" | "forbidden_origin" | "cwd_outside_roots" | "locked_by_policy" | "model_not_allowed";
                    };
                };
            };
        };
        /** @description `forbidden_host`: the Host header names no loopback address; `forbidden_origin`: a page of another origin asks; `locked_by_policy`: policy locks the setting. */
        ForbiddenHostOrForbiddenOriginOrLockedByPolicy: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "error": {
                 *         "code": "forbidden_host",
                 *         "message": "the Host header names no loopback address",
                 *         "requestId": "0193a1f0-7c9e-7b52-8d41-5f2f3c1a9e77"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["ErrorBody"] & {
                    error?: {
                        /** @enum {unknown} */
                        code?: "forbidden_host" | "forbidden_origin" | "locked_by_policy";
                    };
                };
            };
        };
        /** @description `forbidden_host`: the Host header names no loopback address; `forbidden_origin`: a page of another origin asks; `locked_by_policy`: policy locks the setting; `model_not_allowed`: policy does not allow the model. */
        ForbiddenHostOrForbiddenOriginOrLockedByPolicyOrModelNotAllowed: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "error": {
                 *         "code": "forbidden_host",
                 *         "message": "the Host header names no loopback address",
                 *         "requestId": "0193a1f0-7c9e-7b52-8d41-5f2f3c1a9e77"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["ErrorBody"] & {
                    error?: {
                        /** @enum {unknown} */
                        code?: "forbidden_host" | "forbidden_origin" | "locked_by_policy" | "model_not_allowed";
                    };
                };
            };
        };
        /** @description `internal_error`: a failure of ours; the log has it under the request id. */
        InternalError: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "error": {
                 *         "code": "internal_error",
                 *         "message": "a failure of ours; the log has it under the request id",
                 *         "requestId": "0193a1f0-7c9e-7b52-8d41-5f2f3c1a9e77"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["ErrorBody"] & {
                    error?: {
                        /** @enum {unknown} */
                        code?: "internal_error";
                    };
                };
            };
        };
        /** @description `method_not_allowed`: the route has other methods; Allow lists them. */
        MethodNotAllowed: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                Allow: components["headers"]["Allow"];
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "error": {
                 *         "code": "method_not_allowed",
                 *         "message": "the route has other methods; Allow lists them",
                 *         "requestId": "0193a1f0-7c9e-7b52-8d41-5f2f3c1a9e77"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["ErrorBody"] & {
                    error?: {
                        /** @enum {unknown} */
                        code?: "method_not_allowed";
                    };
                };
            };
        };
        /** @description `not_found`: no such route. */
        NotFound: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "error": {
                 *         "code": "not_found",
                 *         "message": "no such route",
                 *         "requestId": "0193a1f0-7c9e-7b52-8d41-5f2f3c1a9e77"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["ErrorBody"] & {
                    error?: {
                        /** @enum {unknown} */
                        code?: "not_found";
                    };
                };
            };
        };
        /** @description `not_found`: no such route; `session_not_found`: no such session is open here; a stored one is opened with resume. */
        NotFoundOrSessionNotFound: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "error": {
                 *         "code": "not_found",
                 *         "message": "no such route",
                 *         "requestId": "0193a1f0-7c9e-7b52-8d41-5f2f3c1a9e77"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["ErrorBody"] & {
                    error?: {
                        /** @enum {unknown} */
                        code?: "not_found" | "session_not_found";
                    };
                };
            };
        };
        /** @description `not_found`: no such route; `session_not_found`: no such session is open here; a stored one is opened with resume; `checkpoint_not_found`: no such checkpoint, or its files are not kept any more. */
        NotFoundOrSessionNotFoundOrCheckpointNotFound: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "error": {
                 *         "code": "not_found",
                 *         "message": "no such route",
                 *         "requestId": "0193a1f0-7c9e-7b52-8d41-5f2f3c1a9e77"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["ErrorBody"] & {
                    error?: {
                        /** @enum {unknown} */
                        code?: "not_found" | "session_not_found" | "checkpoint_not_found";
                    };
                };
            };
        };
        /** @description `not_found`: no such route; `session_not_found`: no such session is open here; a stored one is opened with resume; `request_not_found`: no such request in this session. */
        NotFoundOrSessionNotFoundOrRequestNotFound: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "error": {
                 *         "code": "not_found",
                 *         "message": "no such route",
                 *         "requestId": "0193a1f0-7c9e-7b52-8d41-5f2f3c1a9e77"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["ErrorBody"] & {
                    error?: {
                        /** @enum {unknown} */
                        code?: "not_found" | "session_not_found" | "request_not_found";
                    };
                };
            };
        };
        /** @description `not_found`: no such route; `session_not_found`: no such session is open here; a stored one is opened with resume; `task_not_found`: no such task in this session. */
        NotFoundOrSessionNotFoundOrTaskNotFound: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "error": {
                 *         "code": "not_found",
                 *         "message": "no such route",
                 *         "requestId": "0193a1f0-7c9e-7b52-8d41-5f2f3c1a9e77"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["ErrorBody"] & {
                    error?: {
                        /** @enum {unknown} */
                        code?: "not_found" | "session_not_found" | "task_not_found";
                    };
                };
            };
        };
        /** @description `owned_elsewhere`: another living process owns the session. */
        OwnedElsewhere: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "error": {
                 *         "code": "owned_elsewhere",
                 *         "message": "another living process owns the session",
                 *         "requestId": "0193a1f0-7c9e-7b52-8d41-5f2f3c1a9e77"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["ErrorBody"] & {
                    error?: {
                        /** @enum {unknown} */
                        code?: "owned_elsewhere";
                    };
                };
            };
        };
        /** @description `owned_elsewhere`: another living process owns the session; `idempotency_conflict`: the Idempotency-Key came before with another body. */
        OwnedElsewhereOrIdempotencyConflict: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "error": {
                 *         "code": "owned_elsewhere",
                 *         "message": "another living process owns the session",
                 *         "requestId": "0193a1f0-7c9e-7b52-8d41-5f2f3c1a9e77"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["ErrorBody"] & {
                    error?: {
                        /** @enum {unknown} */
                        code?: "owned_elsewhere" | "idempotency_conflict";
                    };
                };
            };
        };
        /** @description `owned_elsewhere`: another living process owns the session; `request_resolved`: the request was decided before. */
        OwnedElsewhereOrRequestResolved: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "error": {
                 *         "code": "owned_elsewhere",
                 *         "message": "another living process owns the session",
                 *         "requestId": "0193a1f0-7c9e-7b52-8d41-5f2f3c1a9e77"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["ErrorBody"] & {
                    error?: {
                        /** @enum {unknown} */
                        code?: "owned_elsewhere" | "request_resolved";
                    };
                };
            };
        };
        /** @description `payload_too_large`: the body is over its limit. */
        PayloadTooLarge: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "error": {
                 *         "code": "payload_too_large",
                 *         "message": "the body is over its limit",
                 *         "requestId": "0193a1f0-7c9e-7b52-8d41-5f2f3c1a9e77"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["ErrorBody"] & {
                    error?: {
                        /** @enum {unknown} */
                        code?: "payload_too_large";
                    };
                };
            };
        };
        /** @description `queue_full`: sixteen prompts wait already. */
        QueueFull: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                "Retry-After": components["headers"]["Retry-After"];
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "error": {
                 *         "code": "queue_full",
                 *         "message": "sixteen prompts wait already",
                 *         "requestId": "0193a1f0-7c9e-7b52-8d41-5f2f3c1a9e77"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["ErrorBody"] & {
                    error?: {
                        /** @enum {unknown} */
                        code?: "queue_full";
                    };
                };
            };
        };
        /** @description `request_timeout`: the body stopped coming. */
        RequestTimeout: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "error": {
                 *         "code": "request_timeout",
                 *         "message": "the body stopped coming",
                 *         "requestId": "0193a1f0-7c9e-7b52-8d41-5f2f3c1a9e77"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["ErrorBody"] & {
                    error?: {
                        /** @enum {unknown} */
                        code?: "request_timeout";
                    };
                };
            };
        };
        /** @description `session_busy`: a prompt runs; interrupt it or wait; `owned_elsewhere`: another living process owns the session. */
        SessionBusyOrOwnedElsewhere: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "error": {
                 *         "code": "session_busy",
                 *         "message": "a prompt runs; interrupt it or wait",
                 *         "requestId": "0193a1f0-7c9e-7b52-8d41-5f2f3c1a9e77"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["ErrorBody"] & {
                    error?: {
                        /** @enum {unknown} */
                        code?: "session_busy" | "owned_elsewhere";
                    };
                };
            };
        };
        /** @description `session_busy`: a prompt runs; interrupt it or wait; `owned_elsewhere`: another living process owns the session; `idempotency_conflict`: the Idempotency-Key came before with another body. */
        SessionBusyOrOwnedElsewhereOrIdempotencyConflict: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "error": {
                 *         "code": "session_busy",
                 *         "message": "a prompt runs; interrupt it or wait",
                 *         "requestId": "0193a1f0-7c9e-7b52-8d41-5f2f3c1a9e77"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["ErrorBody"] & {
                    error?: {
                        /** @enum {unknown} */
                        code?: "session_busy" | "owned_elsewhere" | "idempotency_conflict";
                    };
                };
            };
        };
        /** @description `shutting_down`: the server stops. */
        ShuttingDown: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                "Retry-After": components["headers"]["Retry-After"];
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "error": {
                 *         "code": "shutting_down",
                 *         "message": "the server stops",
                 *         "requestId": "0193a1f0-7c9e-7b52-8d41-5f2f3c1a9e77"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["ErrorBody"] & {
                    error?: {
                        /** @enum {unknown} */
                        code?: "shutting_down";
                    };
                };
            };
        };
        /** @description `too_many_sessions`: as many sessions are open as may be. */
        TooManySessions: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                "Retry-After": components["headers"]["Retry-After"];
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "error": {
                 *         "code": "too_many_sessions",
                 *         "message": "as many sessions are open as may be",
                 *         "requestId": "0193a1f0-7c9e-7b52-8d41-5f2f3c1a9e77"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["ErrorBody"] & {
                    error?: {
                        /** @enum {unknown} */
                        code?: "too_many_sessions";
                    };
                };
            };
        };
        /** @description `too_many_viewers`: as many streams are open as may be. */
        TooManyViewers: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                "Retry-After": components["headers"]["Retry-After"];
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "error": {
                 *         "code": "too_many_viewers",
                 *         "message": "as many streams are open as may be",
                 *         "requestId": "0193a1f0-7c9e-7b52-8d41-5f2f3c1a9e77"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["ErrorBody"] & {
                    error?: {
                        /** @enum {unknown} */
                        code?: "too_many_viewers";
                    };
                };
            };
        };
        /** @description `unauthorized`: no token, or a wrong one. */
        Unauthorized: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "error": {
                 *         "code": "unauthorized",
                 *         "message": "no token, or a wrong one",
                 *         "requestId": "0193a1f0-7c9e-7b52-8d41-5f2f3c1a9e77"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["ErrorBody"] & {
                    error?: {
                        /** @enum {unknown} */
                        code?: "unauthorized";
                    };
                };
            };
        };
        /** @description `unsupported_media_type`: the body is not application/json. */
        UnsupportedMediaType: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "error": {
                 *         "code": "unsupported_media_type",
                 *         "message": "the body is not application/json",
                 *         "requestId": "0193a1f0-7c9e-7b52-8d41-5f2f3c1a9e77"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["ErrorBody"] & {
                    error?: {
                        /** @enum {unknown} */
                        code?: "unsupported_media_type";
                    };
                };
            };
        };
    };
    parameters: {
        /** @description The session. */
        sessionId: string;
        /** @description The request. */
        requestId: string;
        /** @description The task. */
        taskId: string;
    };
    requestBodies: never;
    headers: {
        /** @description The request's id: the client's own where it sent a usable one. */
        "X-Request-Id": string;
        /** @description `true` on an answer that was given before. */
        "Idempotency-Replayed": "true";
        /** @description After how many seconds to come again. */
        "Retry-After": number;
        /** @description The methods that the route has. */
        Allow: string;
        /** @description How to come in. */
        "WWW-Authenticate": string;
    };
    pathItems: never;
}
export type $defs = Record<string, never>;
export type operations = Record<string, never>;
