// Generated from schema/event.schema.json by `npm run generate`. Do not edit.

export type paths = Record<string, never>;
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description One event with its envelope, as every stream shows it. */
        Event: {
            /** @description The session. */
            sessionId: components["schemas"]["SessionId"];
            /** @description The position in the log; absent on deltas. */
            seq?: components["schemas"]["Seq"] | null;
            /** @description When it happened. */
            ts: components["schemas"]["Timestamp"];
        } & (({
            /** @constant */
            type: "session_start";
        } & components["schemas"]["SessionStart"]) | ({
            /** @constant */
            type: "context_set";
        } & components["schemas"]["ContextSet"]) | ({
            /** @constant */
            type: "context_added";
        } & components["schemas"]["ContextAdded"]) | ({
            /** @constant */
            type: "turn_start";
        } & components["schemas"]["TurnStart"]) | ({
            /** @constant */
            type: "text_delta";
        } & components["schemas"]["TextDelta"]) | ({
            /** @constant */
            type: "thinking_delta";
        } & components["schemas"]["ThinkingDelta"]) | ({
            /** @constant */
            type: "assistant_message";
        } & components["schemas"]["AssistantMessage"]) | ({
            /** @constant */
            type: "tool_call";
        } & components["schemas"]["ToolCall"]) | ({
            /** @constant */
            type: "tool_started";
        } & components["schemas"]["ToolStarted"]) | ({
            /** @constant */
            type: "tools_activated";
        } & components["schemas"]["ToolsActivated"]) | ({
            /** @constant */
            type: "tool_progress";
        } & components["schemas"]["ToolProgress"]) | ({
            /** @constant */
            type: "tool_result";
        } & components["schemas"]["ToolResult"]) | ({
            /** @constant */
            type: "tool_denied";
        } & components["schemas"]["ToolDenied"]) | ({
            /** @constant */
            type: "retry";
        } & components["schemas"]["Retry"]) | ({
            /** @constant */
            type: "compacted";
        } & components["schemas"]["Compacted"]) | ({
            /** @constant */
            type: "compaction_undone";
        } & components["schemas"]["CompactionUndone"]) | ({
            /** @constant */
            type: "checkpoint";
        } & components["schemas"]["CheckpointMade"]) | ({
            /** @constant */
            type: "changes_recorded";
        } & components["schemas"]["ChangesRecorded"]) | ({
            /** @constant */
            type: "rewound";
        } & components["schemas"]["Rewound"]) | ({
            /** @constant */
            type: "usage";
        } & components["schemas"]["UsageEvent"]) | ({
            /** @constant */
            type: "notice";
        } & components["schemas"]["Notice"]) | ({
            /** @constant */
            type: "mode_changed";
        } & components["schemas"]["ModeChanged"]) | ({
            /** @constant */
            type: "model_changed";
        } & components["schemas"]["ModelChanged"]) | ({
            /** @constant */
            type: "permission_request";
        } & components["schemas"]["PermissionRequest"]) | ({
            /** @constant */
            type: "question_request";
        } & components["schemas"]["QuestionRequest"]) | ({
            /** @constant */
            type: "plan_request";
        } & components["schemas"]["PlanRequest"]) | ({
            /** @constant */
            type: "request_resolved";
        } & components["schemas"]["RequestResolved"]) | ({
            /** @constant */
            type: "prompt_queued";
        } & components["schemas"]["PromptQueued"]) | ({
            /** @constant */
            type: "prompt_started";
        } & components["schemas"]["PromptStarted"]) | ({
            /** @constant */
            type: "prompt_finished";
        } & components["schemas"]["PromptFinished"]) | ({
            /** @constant */
            type: "session_updated";
        } & components["schemas"]["SessionUpdated"]) | ({
            /** @constant */
            type: "session_closed";
        } & components["schemas"]["SessionClosed"]) | ({
            /** @constant */
            type: "done";
        } & components["schemas"]["Done"]));
        /** @description What runs without asking when no rule decides. */
        Mode: "plan" | "ask" | "auto-edit" | "full-auto";
        /** @description A durable conversation. */
        SessionId: string;
        /** @description A sandbox with a life of its own: 1 to 64 letters, digits, `_` and `-`. */
        NeuronId: string;
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
        /** @description How a neuron is kept apart from the machine. */
        NeuronDriver: "host" | "namespace";
        /** @description How far a machine can keep neurons apart. */
        IsolationLevel: "none" | "partial" | "full";
        /** @description Where the writes to a neuron's folder go. */
        Writes: "overlay" | "folder";
        /** @description What a call may do; a call has the highest effect of its parts. The order matters. */
        Effect: "read" | "interact" | "write" | "execute" | "network" | "destructive";
        /** @description The session opens. First event of a log. */
        SessionStart: {
            /** @description The working folder, with symbolic links resolved. */
            cwd: string;
            /** @description The model, `provider/model`. */
            model: string;
            /** @description The permission mode. */
            mode: components["schemas"]["Mode"];
            /** @description The names of the tools. */
            tools: string[];
            /** @description A title for people. */
            title?: string | null;
            /** @description The session that this one was forked or imported from. */
            parent?: components["schemas"]["SessionId"] | null;
            /** @description Rules of the session that allow calls. */
            allow?: string[];
            /** @description Rules of the session that deny calls. */
            deny?: string[];
            /** @description The session's own text after the system prompt. */
            appendSystemPrompt?: string | null;
            /** @description The neuron that it acts in; `cwd` is a folder inside it. */
            neuron?: components["schemas"]["NeuronId"] | null;
            /** @description What keeps the session apart, where that neuron is its own, made over `cwd`. */
            sandbox?: components["schemas"]["SessionSandbox"] | null;
            /** @description Effects that are asked for, whatever the mode and the session's own rules allow. */
            asksFor?: components["schemas"]["Effect"][];
            /**
             * Format: uint32
             * @description The most steps of a prompt that says nothing of it.
             */
            maxTurns?: number | null;
        };
        /**
         * @description What the model is told before the transcript. Recorded once, so that the prefix of every
         *     request stays the same bytes over restarts.
         */
        ContextSet: {
            /** @description The system prompt. */
            system: string;
        };
        /** @description The model is told something that no person said: the words of a hook. */
        ContextAdded: {
            /** @description Where it comes from, for example `hook Stop`. */
            source: string;
            /** @description What the model reads. */
            text: string;
            /** @description Whether the turn, which was about to end, goes on with it. */
            goesOn?: boolean;
        };
        /** @description A prompt: what sets off one turn. */
        PromptId: string;
        /** @description A step begins: one model call. */
        TurnStart: {
            /**
             * Format: uint32
             * @description The number of the step within its prompt, from 1.
             */
            turn: number;
            /** @description The prompt that set it off. */
            promptId: components["schemas"]["PromptId"];
            /** @description The model that is asked. */
            model: string;
        };
        /** @description Live text. */
        TextDelta: {
            /** @description The piece. */
            text: string;
        };
        /** @description Live thinking. */
        ThinkingDelta: {
            /** @description The piece. */
            text: string;
        };
        /** @description A message of the transcript. */
        MessageId: string;
        /** @description One piece of a message. */
        Block: {
            /** @constant */
            type: "text";
            /** @description The text. */
            text: string;
            /** @description The provider's seal, where it signs text. */
            signed?: components["schemas"]["Signed"] | null;
        } | {
            /** @constant */
            type: "thinking";
            /** @description The thought, or its summary; may be empty where the provider keeps it. */
            text: string;
            /** @description The provider's seal. */
            signed?: components["schemas"]["Signed"] | null;
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
            malformed?: string | null;
            /** @description The provider's seal, where it signs calls. */
            signed?: components["schemas"]["Signed"] | null;
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
        } | ({
            /** @constant */
            type: "image";
        } & components["schemas"]["Image"]);
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
        /** @description The language of a provider. Signed blocks go back only to the wire that made them. */
        Wire: "anthropic" | "openai-responses" | "openai-chat" | "gemini" | "scripted";
        /** @description A tool call, unique within its session. */
        ToolCallId: string;
        /** @description An image, in base64. */
        Image: {
            /** @description `image/png`, `image/jpeg`, `image/gif` or `image/webp`. */
            mimeType: string;
            /** @description The bytes in standard base64. */
            data: string;
        };
        /** @description Why a model stopped writing. */
        StopReason: "end_turn" | "tool_use" | "max_tokens" | "stop_sequence" | "pause_turn" | "refusal" | "interrupted";
        /** @description What the model answered, whole. */
        AssistantMessage: {
            /** @description Its id. */
            messageId: components["schemas"]["MessageId"];
            /** @description What it says. */
            content: components["schemas"]["Block"][];
            /** @description Why the model stopped. */
            stopReason: components["schemas"]["StopReason"];
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
        /** @description A call that passed the schema, with what it is about. */
        ToolCall: {
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
        };
        /** @description A call with an effect is about to run. */
        ToolStarted: {
            /** @description The call. */
            toolCallId: components["schemas"]["ToolCallId"];
            /** @description What it may do. */
            effect: components["schemas"]["Effect"];
        };
        /**
         * @description Tools that the model asked for by name or that a search found: the session is offered them
         *     from the next step on.
         */
        ToolsActivated: {
            /** @description Their names, in the order in which they were found. */
            names: string[];
        };
        /** @description A stream of a process. */
        OutputStream: "stdout" | "stderr";
        /** @description Live output of a tool. */
        ToolProgress: {
            /** @description The call. */
            toolCallId: components["schemas"]["ToolCallId"];
            /** @description The piece. */
            text: string;
            /** @description Where it came from. */
            stream?: components["schemas"]["OutputStream"] | null;
        };
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
            code?: number | null;
            /**
             * Format: int32
             * @description The signal that ended it.
             */
            signal?: number | null;
        } | {
            /** @constant */
            kind: "note";
            /** @description The fact. */
            text: string;
        };
        /** @description The contents of a file as a tool saw or left them: a fact that later edits are held against. */
        FileStamp: {
            /** @description The real path. */
            path: string;
            /** @description The first 32 hexadecimal digits of the SHA-256 of the contents; absent when it is gone. */
            hash?: string | null;
        };
        /** @description What a call brought. */
        ToolResult: {
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
            spill?: string | null;
            /**
             * Format: uint64
             * @description How long it took, in milliseconds.
             */
            durationMs: number;
            /** @description What people are shown. */
            display?: components["schemas"]["Display"] | null;
            /** @description The files that the call saw or left. */
            files?: components["schemas"]["FileStamp"][];
        };
        /** @description Who refused a call. */
        DeniedBy: "rule" | "user" | "policy" | "timeout" | "mode" | "checks" | "host" | "hook" | "budget" | "nobody";
        /** @description A call that was not run. */
        ToolDenied: {
            /** @description The call. */
            toolCallId: components["schemas"]["ToolCallId"];
            /** @description The tool's name. */
            toolName: string;
            /** @description Why, as the model is told. */
            reason: string;
            /** @description Who refused it. */
            by: components["schemas"]["DeniedBy"];
        };
        /** @description The provider is in trouble and is asked again. Viewers start the current block anew. */
        Retry: {
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
        };
        /**
         * Format: uint64
         * @description A position in a session's log: dense, from 1. `Seq(0)` is before the first event.
         */
        Seq: number;
        /** @description Older messages were summarised. The log keeps them; this only changes what the model reads. */
        Compacted: {
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
            /** @description The last position that the summary stands for. */
            through?: unknown & components["schemas"]["Seq"];
            /** @description The prompt that is kept word for word after the summary, where it lies before `through`. */
            kept?: components["schemas"]["Seq"] | null;
            /**
             * @description What the model reads in place of everything up to `through`.
             * @default
             */
            summary?: string;
            /** @description Whether the summary was put together without a model, because none could write it. */
            mechanical?: boolean;
        };
        /** @description The newest compaction was taken back: the model reads the original messages again. */
        CompactionUndone: {
            /** @description Where the compaction was recorded. */
            compaction: components["schemas"]["Seq"];
            /**
             * Format: uint64
             * @description Tokens after it.
             */
            after: number;
        };
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
        /** @description A point that a session can go back to: before one of its prompts. */
        CheckpointId: string;
        /**
         * Format: date-time
         * @description RFC 3339 in UTC with milliseconds.
         */
        Timestamp: string;
        /** @description A captured tree of files: the hash of its manifest. */
        TreeId: string;
        /** @description The files were captured before a turn's first change. */
        CheckpointMade: {
            /** @description The checkpoint. */
            checkpoint: components["schemas"]["Checkpoint"];
            /** @description The captured tree. */
            tree: components["schemas"]["TreeId"];
            /** @description What is not in it, one sentence each. */
            leftOut?: string[];
        };
        /** @description What a turn left: the tree after it. */
        ChangesRecorded: {
            /** @description The checkpoint before it. */
            checkpointId: components["schemas"]["CheckpointId"];
            /** @description The tree after it; absent where the turn was cut and nobody looked. */
            tree?: components["schemas"]["TreeId"] | null;
            /**
             * Format: uint64
             * @description How many paths differ.
             */
            paths: number;
        };
        /** @description What a person went back in. */
        RewindScope: "both" | "conversation" | "files";
        /**
         * @description Somebody went back. The log keeps everything; this only changes what the model reads and which
         *     changes count as undone.
         */
        Rewound: {
            /** @description The checkpoint gone back to. */
            checkpointId: components["schemas"]["CheckpointId"];
            /** @description In what. */
            scope: components["schemas"]["RewindScope"];
            /** @description The first position that the model reads no more; absent where the conversation stays. */
            from?: components["schemas"]["Seq"] | null;
            /** @description Whether only the newest change set was taken back (`undo`). */
            undo?: boolean;
            /** @description The paths that hold their older state again; at most 1,000 are named. */
            filesChanged: string[];
            /** @description The paths that were left as they are, with the reason; at most 1,000 are named. */
            filesKept?: string[];
            /**
             * Format: uint64
             * @description How many messages the model reads no more.
             */
            messagesRemoved: number;
        };
        /** @description What one model call used. */
        UsageEvent: {
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
            costUsd?: number | null;
            /** @description The model. */
            model?: string | null;
            /** @description What the call was for, where it was no step of the turn: `compaction`. */
            purpose?: string | null;
        };
        /** @description How loud a notice is. */
        NoticeLevel: "info" | "warn" | "error";
        /** @description Something a person should know. */
        Notice: {
            /** @description How loud. */
            level: components["schemas"]["NoticeLevel"];
            /** @description A stable code for programs. */
            code?: string | null;
            /** @description One or two sentences. */
            message: string;
        };
        /** @description The mode changed. */
        ModeChanged: {
            /** @description The new mode. */
            mode: components["schemas"]["Mode"];
        };
        /** @description The model changed. */
        ModelChanged: {
            /** @description The new model. */
            model: string;
        };
        /** @description An interaction that waits for an answer. */
        RequestId: string;
        /** @description How much a person should think before allowing a call. */
        Risk: "low" | "medium" | "high";
        /** @description A finding of a check. */
        Finding: {
            /** @description The rule of the check that it breaks. */
            ruleId: string;
            /** @description How bad it is, in the check's own words, for example `error`. */
            severity: string;
            /** @description What was found. */
            message: string;
            /** @description Where. */
            path?: string | null;
            /**
             * Format: uint64
             * @description The line, from 1.
             */
            line?: number | null;
            /**
             * @description Whether it refuses the call, whatever any answer says.
             * @default false
             */
            blocking?: boolean;
        };
        /** @description A call waits for a person. */
        PermissionRequest: {
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
            reason?: string | null;
            /**
             * @description Whether it would run, and is asked for only because such calls are reviewed in this
             *     session.
             */
            review?: boolean;
            /** @description The change as a unified diff, where it can be told beforehand; at most 64 KiB. */
            diff?: string | null;
            /** @description What checks found; none of it blocks. */
            checks?: components["schemas"]["Finding"][];
            /** @description When it becomes a denial; null when it waits for ever. */
            expiresAt?: components["schemas"]["Timestamp"] | null;
        };
        /** @description What a question is about when it is not the model's. */
        PauseKind: "budget" | "repetition";
        /** @description An option of a question. */
        QuestionOption: {
            /** @description What an answer names. */
            id: string;
            /** @description What people read. */
            label: string;
            /** @description More about it. */
            description?: string | null;
        };
        /** @description A question waits for a person: the model's own, or one of the runtime's about the turn. */
        QuestionRequest: {
            /** @description The interaction. */
            requestId: components["schemas"]["RequestId"];
            /** @description The call that asks; absent where the runtime does. */
            toolCallId?: components["schemas"]["ToolCallId"] | null;
            /** @description What the runtime asks about; absent where the model asks. */
            about?: components["schemas"]["PauseKind"] | null;
            /** @description The question. */
            question: string;
            /** @description The options; an answer names their ids. */
            options: components["schemas"]["QuestionOption"][];
            /** @description Whether several may be chosen. */
            multiSelect: boolean;
            /** @description Whether words of one's own are an answer too. */
            allowOther: boolean;
            /** @description When it is dismissed; null when it waits for ever. */
            expiresAt?: components["schemas"]["Timestamp"] | null;
        };
        /** @description A plan waits for approval. */
        PlanRequest: {
            /** @description The interaction. */
            requestId: components["schemas"]["RequestId"];
            /** @description The call. */
            toolCallId: components["schemas"]["ToolCallId"];
            /** @description The plan, in Markdown. */
            plan: string;
            /** @description When it is rejected; null when it waits for ever. */
            expiresAt?: components["schemas"]["Timestamp"] | null;
        };
        /** @description The kinds of interactions. */
        InteractionKind: "permission" | "question" | "plan";
        /** @description What was decided. */
        Outcome: "allow_once" | "allow_always" | "deny" | "answered" | "dismissed" | "approved" | "rejected";
        /** @description Who decided. */
        DecidedBy: "client" | "timeout" | "interrupt" | "policy";
        /** @description How long a rule that was allowed for good is kept. */
        Persist: "session" | "project" | "user";
        /** @description An interaction was decided. */
        RequestResolved: {
            /** @description The interaction. */
            requestId: components["schemas"]["RequestId"];
            /** @description Its kind. */
            kind: components["schemas"]["InteractionKind"];
            /** @description What was decided. */
            outcome: components["schemas"]["Outcome"];
            /** @description Who decided. */
            by: components["schemas"]["DecidedBy"];
            /** @description The rule that was allowed for good. */
            rule?: string | null;
            /** @description For how long. */
            persist?: components["schemas"]["Persist"] | null;
            /** @description The ids of the chosen options. */
            answers?: string[];
            /** @description Words that came with the answer: feedback, or an answer of one's own. */
            words?: string | null;
            /** @description The mode that a plan was approved for. */
            mode?: components["schemas"]["Mode"] | null;
        };
        /** @description The JSON that the last answer of a turn must be. */
        OutputFormat: {
            /** @description A name for it: letters, digits, `_` and `-`, at most 64. */
            name?: string | null;
            /** @description The JSON Schema: at most 32 KiB. */
            schema: unknown;
            /** @description Whether an answer that does not fit makes the turn fail. */
            strict: boolean;
        };
        /** @description A prompt waits for its turn. */
        PromptQueued: {
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
            maxTurns?: number | null;
            /** @description The model of this turn alone. */
            model?: string | null;
            /** @description The JSON that the answer must be. */
            output?: components["schemas"]["OutputFormat"] | null;
            /** @description The id of the request that brought the prompt. */
            requestId?: string | null;
        };
        /** @description A prompt's turn begins. */
        PromptStarted: {
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
            maxTurns?: number | null;
            /** @description The slash command that the prompt is; the runtime obeys it and no model reads it. */
            command?: string | null;
            /** @description The model of this turn alone. */
            model?: string | null;
            /** @description The JSON that the answer must be. */
            output?: components["schemas"]["OutputFormat"] | null;
            /** @description The id of the request that brought the prompt. */
            requestId?: string | null;
        };
        /** @description What came of a turn. */
        TurnResult: {
            /** @description Why it ended. */
            reason: components["schemas"]["TurnEnd"];
            /** @description A stable code that says more about `error`, for example `context_overflow`. */
            code?: string | null;
            /** @description For people: what went wrong and what to do about it. */
            message?: string | null;
            /** @description The tokens of all steps. */
            usage: components["schemas"]["Usage"];
            /**
             * Format: double
             * @description The price of all steps in US dollars; absent where one is not known.
             */
            costUsd?: number | null;
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
        /** @description Why a turn ended. */
        TurnEnd: "completed" | "interrupted" | "max_turns" | "budget" | "time" | "repetition" | "error" | "denied";
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
        /** @description A prompt's turn is over; the last event that the prompt causes. */
        PromptFinished: {
            /** @description The prompt. */
            promptId: components["schemas"]["PromptId"];
            /** @description What came of it. */
            result: components["schemas"]["TurnResult"];
        };
        /** @description Title or state changed; only what changed is present. */
        SessionUpdated: {
            /** @description The new title. */
            title?: string | null;
        };
        /** @description Why a session was closed. */
        SessionEnd: "closed" | "deleted" | "shutdown";
        /** @description The session was closed cleanly. */
        SessionClosed: {
            /** @description Why. */
            reason: components["schemas"]["SessionEnd"];
        };
        /** @description The turn is over. Exactly one per turn, whatever happened. */
        Done: {
            /** @description Why it ended. */
            reason: components["schemas"]["TurnEnd"];
            /** @description A stable code that says more about `error`, for example `context_overflow`. */
            code?: string | null;
            /** @description For people: what went wrong and what to do about it. */
            message?: string | null;
            /** @description The tokens of all steps. */
            usage: components["schemas"]["Usage"];
            /**
             * Format: double
             * @description The price of all steps in US dollars; absent where one is not known.
             */
            costUsd?: number | null;
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
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export type operations = Record<string, never>;
