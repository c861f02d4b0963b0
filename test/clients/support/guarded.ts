import { AgentTrust, Sidecar } from '../../../clients/node/src/index.ts';
import type { Amounts } from '../../../mcp-proxy/amounts.ts';
import { foreignPermissions } from '../../../mcp-proxy/foreign-permissions.ts';
import { callGuard, type Shown } from '../../../mcp-proxy/guard-calls.ts';
import { reporterTo, shownTools, upstreamOf } from '../../../mcp-proxy/guard-mcp.ts';
import { CallReports } from '../../../mcp-proxy/held-calls.ts';
import { type HttpProxy, startHttpProxy } from '../../../mcp-proxy/http-proxy.ts';
import { AnswerGuard } from '../../../mcp-proxy/look-at-answers.ts';
import { PermittedTools } from '../../../mcp-proxy/permitted-tools.ts';
import type { ProtectedResource } from '../../../mcp-proxy/protected-resource.ts';
import { RequestGuard } from '../../../mcp-proxy/request-guard.ts';
import type { Settlements } from '../../../mcp-proxy/settlements.ts';
import { Standings } from '../../../mcp-proxy/standings.ts';
import { type PinMode, ToolPins, type ToolPinsOptions } from '../../../mcp-proxy/tool-pins.ts';
import { systemClock } from '../../../shared/runtime/clock.ts';
import { silentLogger } from '../../../shared/runtime/logger.ts';
import type { ClientService } from './service.ts';

export interface GuardedOptions {
  readonly service: ClientService;
  readonly gate: string;
  readonly upstream: URL;
  /** Default: `amount` of the arguments, for the tool `pay`. */
  readonly amounts?: Amounts;
  /** Default: no call holds its amount. */
  readonly settlements?: Settlements;
  readonly onReportError?: (error: unknown) => void;
  /** Default: the sidecar of the service. */
  readonly sidecar?: Sidecar;
  /** Where passports are asked about. Default: the sidecar of the service. */
  readonly standingsUrl?: string;
  /** Default: the control plane of the service. */
  readonly controlPlaneUrl?: string;
  readonly answerMsMax?: number;
  readonly takesIdempotencyKeys?: boolean;
  readonly servesWithoutDecision?: boolean;
  readonly forwardsPassport?: boolean;
  readonly showsAllTools?: boolean;
  readonly origins?: readonly string[];
  /** Default: none, so that no proof is passed on. */
  readonly publicUrl?: URL;
  /** Default: access tokens are the server's. */
  readonly resource?: ProtectedResource;
  /** Default: the operator's. */
  readonly apiKey?: string;
  readonly openRequestsMax?: number;
  /** Default: `observe`. */
  readonly pin?: PinMode;
  readonly upstreamName?: string;
  readonly answerBytesMax?: number;
  /** Default: to the control plane of the service. */
  readonly report?: ToolPinsOptions['report'];
}

const amounts: Amounts = new Map([['pay', { path: ['amount'] }]]);

/** What looks at requests and answers, for a server that is pinned under this name. */
export async function guardParts(options: Omit<GuardedOptions, 'upstream'>, upstream: string) {
  const { service, gate } = options;
  const controlPlaneUrl = options.controlPlaneUrl ?? service.url;
  const logger = silentLogger;
  const { apiKey = service.api.adminKey } = options;
  const agentTrust = new AgentTrust({ url: controlPlaneUrl, apiKey, retriesMax: 0 });
  const foreign = foreignPermissions(agentTrust.issuers, systemClock);
  const permitted = new PermittedTools({ controlPlaneUrl, foreign, clock: systemClock, logger });
  const guard = callGuard({
    sidecar: options.sidecar ?? service.sidecar,
    controlPlaneUrl,
    ...(options.publicUrl !== undefined && { origin: options.publicUrl.origin }),
    ...{ gate, amounts: options.amounts ?? amounts, settlements: options.settlements ?? new Map() },
    ...{ hidden: [], takesIdempotencyKeys: options.takesIdempotencyKeys ?? false },
    ...{ servesWithoutDecision: options.servesWithoutDecision ?? false, logger },
  });
  const pins = new ToolPins({
    mode: options.pin ?? 'observe',
    gate,
    upstream: options.upstreamName ?? upstream,
    report: options.report ?? reporterTo(service.agentTrust),
    logger,
  });
  await pins.refresh(0);
  const shown = options.showsAllTools === true ? null : (shown: Shown) => shownTools(permitted, shown);
  const { onReportError = () => undefined } = options;
  const sidecar = options.sidecar ?? service.sidecar;
  const sidecarUrl = options.standingsUrl ?? service.testSidecar.origin;
  const servesUnknown = options.servesWithoutDecision ?? false;
  return {
    standings: new Standings({ sidecarUrl, apiKey: service.api.adminKey, gate, servesUnknown }),
    reports: new CallReports({ sidecar, controlPlaneUrl, onReportError }),
    requests: new RequestGuard({ guard, pins }),
    answers: new AnswerGuard({ guard, pins, shownTools: shown, logger }),
    views: pins.views,
  };
}

/** The proxy in this process, before a server of the test. */
export async function startGuarded(options: GuardedOptions): Promise<HttpProxy> {
  const { upstream, answerBytesMax, openRequestsMax } = options;
  return startHttpProxy({
    ...(await guardParts(options, upstreamOf(upstream, []))),
    ...{ upstream, answerMsMax: options.answerMsMax ?? 60_000, host: '127.0.0.1', port: 0 },
    ...{ site: { hosts: [], origins: options.origins ?? [] }, publicUrl: options.publicUrl ?? null },
    resource: options.resource ?? null,
    ...(answerBytesMax === undefined ? {} : { answerBytesMax }),
    forwardsPassport: options.forwardsPassport ?? false,
    ...(openRequestsMax === undefined ? {} : { openRequestsMax }),
    logger: silentLogger,
  });
}

/** One that answers nothing, at an address where nobody listens. */
export const absentSidecar = (port: number, apiKey: string): Sidecar =>
  new Sidecar({ url: `http://127.0.0.1:${port}`, apiKey });
