/**
 * Room `mcp-proxy`: `agent-trust guard-mcp`, a proxy before an MCP server that decides what a client asks.
 * Before a server over HTTP: `http-proxy.ts`, `server-answers.ts` and `upstream.ts`; before a program:
 * `stdio-proxy.ts` and `passport-file.ts`. `check-start.ts` looks at key, gate and server before it listens;
 * `read-messages.ts` and `find-ambiguity.ts` read what a client sends as every reader reads it, or not at
 * all; `guarded-methods.ts` has the methods that are decided, `request-guard.ts` and `guard-calls.ts` go from
 * a request to its decision, `settlements.ts` and `held-calls.ts` from an answer to what the call came to.
 * `open-requests.ts` has those that wait for answers, `standings.ts` asks whether passports stand.
 * `protected-resource.ts` and `foreign-permissions.ts` are about access tokens of a company's identity
 * provider. `tool-pins.ts` and `tool-views.ts` know the tools as they were and as they are.
 * `look-at-answers.ts` looks at what the server sends: `permitted-tools.ts` and `hide-unpermitted.ts` for
 * what a passport is shown, `answer-data.ts` for personal data, `mark-untrusted.ts` for the mark.
 */

import { basename } from 'node:path';
import { AgentTrust } from '../clients/node/src/agent-trust.ts';
import { passportsIn } from '../clients/node/src/guard.ts';
import { Sidecar } from '../clients/node/src/sidecar.ts';
import { canonicalJson } from '../shared/crypto/canonical-json.ts';
import { sha256Hex } from '../shared/crypto/content-hash.ts';
import { limits } from '../shared/model/limits.ts';
import { misleadingCharacter } from '../shared/model/plain-text.ts';
import { systemClock } from '../shared/runtime/clock.ts';
import type { Logger } from '../shared/runtime/logger.ts';
import { SettingsError } from '../shared/runtime/settings.ts';
import { readAmounts, ToolFileError } from './amounts.ts';
import { checkGate, checkUpstream } from './check-start.ts';
import type { Pointer } from './display.ts';
import { foreignPermissions } from './foreign-permissions.ts';
import { callGuard, type Shown } from './guard-calls.ts';
import { CallReports } from './held-calls.ts';
import { type HttpProxy, startHttpProxy } from './http-proxy.ts';
import { proxyLimits } from './limits.ts';
import { AnswerGuard } from './look-at-answers.ts';
import { passportInFile } from './passport-file.ts';
import { PermittedTools, type ShownTools } from './permitted-tools.ts';
import { ProtectedResource } from './protected-resource.ts';
import { RequestGuard } from './request-guard.ts';
import { readSettlements } from './settlements.ts';
import { Standings } from './standings.ts';
import { runStdioProxy } from './stdio-proxy.ts';
import { type PinMode, ToolPins, type ToolPinsOptions } from './tool-pins.ts';

/** Services of the composition root for the command. */
export interface GuardMcpHost {
  readonly env: NodeJS.ProcessEnv;
  setExitCode(code: 0 | 1): void;
  stopSignal(): AbortSignal;
  /** The service as the settings and these addresses name it, and the log. */
  service(options: {
    readonly sidecar: string | null;
    readonly controlPlane: string | null;
  }): Promise<Service>;
  /** Runs the listener until a signal ends it; returns the exit code. */
  runUntilSignal(start: (stopping: AbortSignal) => Promise<HttpProxy>, logger: Logger): Promise<number>;
  /** For the end of `--help`. */
  readonly help: () => string;
}

export interface Service {
  readonly sidecarUrl: string;
  readonly controlPlaneUrl: string;
  readonly apiKey: string;
  readonly logger: Logger;
}

export interface GuardMcpOptions {
  readonly gate: string;
  readonly upstream?: URL;
  readonly upstreamCommand?: readonly string[];
  readonly host: string;
  readonly port: number;
  readonly allowHost?: readonly string[];
  readonly allowOrigin?: readonly string[];
  readonly publicUrl?: URL;
  readonly authorizationServer?: readonly string[];
  readonly scopes?: readonly string[];
  readonly amounts?: string;
  readonly settle?: string;
  readonly hide?: readonly Pointer[];
  readonly passportFile?: string;
  readonly timeout: number;
  readonly sidecar?: string;
  readonly controlPlane?: string;
  readonly showAllTools?: true;
  readonly forwardPassport?: true;
  readonly acceptIdempotencyKeys?: true;
  readonly dangerouslyServeWithoutDecision?: true;
  readonly pin: PinMode;
  readonly upstreamName?: string;
  readonly answerBytesMax: number;
}

/** `agent-trust guard-mcp`. Answers the exit code when it has ended. Throws SettingsError and StartError. */
export async function guardMcp(run: {
  readonly options: GuardMcpOptions;
  /** Empty: `options.upstream` is given. */
  readonly serverCommand: readonly string[];
  readonly host: GuardMcpHost;
}): Promise<0 | 1> {
  const { options, host } = run;
  const amounts = toolsIn('--amounts', options.amounts, readAmounts);
  const settlements = toolsIn('--settle', options.settle, readSettlements);
  const { sidecarUrl, controlPlaneUrl, apiKey, logger } = await host.service({
    sidecar: options.sidecar ?? null,
    controlPlane: options.controlPlane ?? null,
  });
  const sidecar = new Sidecar({ url: sidecarUrl, apiKey, deadlineMs: proxyLimits.decisionMsMax });
  const agentTrust = new AgentTrust({ url: controlPlaneUrl, apiKey, retriesMax: 0 });
  const foreign = foreignPermissions(agentTrust.issuers, systemClock);
  const permitted = new PermittedTools({ controlPlaneUrl, foreign, clock: systemClock, logger });
  const pins = new ToolPins({
    mode: options.pin,
    gate: options.gate,
    upstream: options.upstreamName ?? upstreamOf(options.upstream, run.serverCommand),
    report: reporterTo(agentTrust),
    logger,
  });
  const onReportError = (error: unknown) =>
    logger.warn({ err: error }, 'an outcome was not reported: its hold ends by itself');
  const reports = new CallReports({ sidecar, controlPlaneUrl, onReportError });
  const servesUnknown = options.dangerouslyServeWithoutDecision === true;
  const guard = callGuard({
    sidecar,
    controlPlaneUrl,
    ...(options.publicUrl !== undefined && { origin: options.publicUrl.origin }),
    gate: options.gate,
    amounts,
    settlements,
    hidden: options.hide ?? [],
    takesIdempotencyKeys: options.acceptIdempotencyKeys === true,
    servesWithoutDecision: servesUnknown,
    logger,
  });
  const standings = new Standings({ sidecarUrl, apiKey, gate: options.gate, servesUnknown });
  const shared = {
    standings,
    requests: new RequestGuard({ guard, pins }),
    reports,
    answers: new AnswerGuard({
      guard,
      pins,
      shownTools: options.showAllTools === true ? null : (shown: Shown) => shownTools(permitted, shown),
      logger,
    }),
    views: pins.views,
    answerBytesMax: options.answerBytesMax,
    forwardsPassport: options.forwardPassport === true,
    logger,
  };
  try {
    await checkGate({ standings, pins, sidecarUrl, controlPlaneUrl, gate: options.gate, logger });
    const { upstream } = options;
    if (upstream !== undefined) {
      const start = async (stopping: AbortSignal) => {
        await checkUpstream(upstream, { answerMsMax: options.timeout * 1_000, logger, stopping });
        return listen({ ...shared, upstream }, options);
      };
      return (await host.runUntilSignal(start, logger)) === 0 ? 0 : 1;
    }
    const [command = '', ...args] = run.serverCommand;
    const isDone = await runStdioProxy({
      ...shared,
      command,
      args,
      env: environmentOfServer(host.env),
      input: process.stdin,
      output: process.stdout,
      passport: passportOf(options, host.env, logger),
      signal: host.stopSignal(),
    });
    return isDone ? 0 : 1;
  } finally {
    await reports.sent();
    agentTrust.close();
    sidecar.close();
    standings.close();
  }
}

type Shared = Pick<
  Parameters<typeof startHttpProxy>[0],
  | 'standings'
  | 'requests'
  | 'answers'
  | 'reports'
  | 'views'
  | 'answerBytesMax'
  | 'forwardsPassport'
  | 'logger'
  | 'upstream'
>;

async function listen(shared: Shared, options: GuardMcpOptions) {
  const { host, port, allowHost = [], allowOrigin = [], publicUrl = null, timeout } = options;
  const hosts = publicUrl === null ? allowHost : [...allowHost, publicUrl.hostname];
  const site = { hosts, origins: allowOrigin };
  const proxy = await startHttpProxy({
    ...shared,
    ...{ host, port, site, publicUrl, resource: resourceOf(options), answerMsMax: timeout * 1_000 },
  });
  process.stdout.write(`agent-trust guards ${shared.upstream.origin} at ${proxy.url}\n`);
  return proxy;
}

/** Null: the proxy takes no access tokens. */
function resourceOf({
  publicUrl,
  authorizationServer: authorizationServers,
  scopes = [],
}: GuardMcpOptions): ProtectedResource | null {
  if (publicUrl === undefined || authorizationServers === undefined) return null;
  return new ProtectedResource({ publicUrl, authorizationServers, scopes });
}

/** By the passport that is shown. */
export async function shownTools(permitted: PermittedTools, shown: Shown): Promise<ShownTools> {
  const tokens = passportsIn(shown);
  if (tokens.length < 2) return permitted.of(tokens[0]);
  return { kind: 'none', reason: 'passport_ambiguous', detail: 'Show one passport, not two.' };
}

/** Reports to this control plane. */
export const reporterTo =
  (agentTrust: Pick<AgentTrust, 'mcpPins'>): ToolPinsOptions['report'] =>
  (report) =>
    agentTrust.mcpPins.report(report, { deadlineMs: proxyLimits.pinsAnswerMsMax });

/**
 * How the pins of a server are told from those of others. Not its query, nor the words of a command, which
 * may hold secrets: of these a hash.
 */
export function upstreamOf(url: URL | undefined, [program = '', ...words]: readonly string[]): string {
  if (url !== undefined) return `${url.origin}${url.pathname}`.slice(0, limits.mcpUpstreamCharsMax);
  const hash = sha256Hex(canonicalJson([program, ...words])).slice(0, 16);
  return `stdio:${basename(program).replaceAll(misleadingCharacter, '?').slice(0, 64)}:${hash}`;
}

function toolsIn<Value>(
  option: string,
  path: string | undefined,
  read: (path: string) => ReadonlyMap<string, Value>,
): ReadonlyMap<string, Value> {
  try {
    return path === undefined ? new Map() : read(path);
  } catch (error) {
    throw error instanceof ToolFileError ? new SettingsError([`${option} ${error.message}.`]) : error;
  }
}

function passportOf(
  { passportFile }: GuardMcpOptions,
  env: NodeJS.ProcessEnv,
  logger: Logger,
): () => string | undefined {
  const file = passportFile ?? env['AGENT_TRUST_PASSPORT_FILE'];
  if (file !== undefined && file !== '') return passportInFile(file, logger);
  const token = env['AGENT_TRUST_PASSPORT']?.trim() || undefined;
  return () => token;
}

/** Not passed on: a foreign server must not get this service's keys. */
const ownVariable = /^(?:AGENT_TRUST_.*|(?:ADMIN_API_KEY|SIDECAR_API_KEY|MASTER_KEY)(?:_FILE)?)$/;

const environmentOfServer = (env: NodeJS.ProcessEnv): NodeJS.ProcessEnv =>
  Object.fromEntries(Object.entries(env).filter(([name]) => !ownVariable.test(name)));
