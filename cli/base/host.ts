import type { AgentTrust } from '../../clients/node/src/agent-trust.ts';
import type { JsonObject } from '../../shared/crypto/json-object.ts';
import type { Environment } from '../../shared/runtime/settings.ts';
import type { ApiAccess } from './call-api.ts';
import type { keepSecret } from './files.ts';
import type { Printer } from './print.ts';
import type { Dialogue, Input } from './prompt.ts';
import type { TextSink } from './text-sink.ts';

/** Services of the composition root for the commands, whose CommandError and SettingsError it shows. */
export interface CommandHost {
  readonly env: Environment;
  /** Data: what a script reads. */
  readonly output: NodeJS.WritableStream & Pick<TextSink, 'isTTY'>;
  /** Words for people. */
  readonly errors: TextSink;
  readonly stdin: Input;
  setExitCode(code: number): void;
  /** Aborted when the person or the system wants the command to end. */
  stopSignal(): AbortSignal;
  /** Asks the PostgreSQL at this URL, and throws after `answerMsMax`. */
  askDatabase(url: string, answerMsMax: number): Promise<DatabaseAnswer>;
  /** For the end of `--help`: where the key and the settings come from. */
  readonly help: () => string;
}

export interface DatabaseAnswer {
  readonly version: string;
  readonly nowMs: number;
}

/** Options of every command that calls the service. */
export interface ApiOptions {
  readonly profile?: string;
  readonly json?: boolean;
}

/** What the action of a command that calls the service works with. */
export interface Work {
  readonly client: AgentTrust;
  readonly access: ApiAccess;
  readonly print: Printer;
  readonly dialogue: Dialogue;
  readonly host: CommandHost;
  /** The members of a body in this file of YAML or JSON; none where no file is named. */
  readonly readBody: (path: string | undefined) => Promise<JsonObject>;
  readonly keepSecret: typeof keepSecret;
}
