import { Sidecar } from '../../../clients/node/src/index.ts';
import type { Amounts } from '../../../mcp-proxy/amounts.ts';
import { callGuard } from '../../../mcp-proxy/guard-calls.ts';
import { shownTools } from '../../../mcp-proxy/guard-mcp.ts';
import { type HttpProxy, startHttpProxy } from '../../../mcp-proxy/http-proxy.ts';
import { PermittedTools } from '../../../mcp-proxy/permitted-tools.ts';
import { systemClock } from '../../../shared/runtime/clock.ts';
import { silentLogger } from '../../../shared/runtime/logger.ts';
import type { ClientService } from './service.ts';

export interface GuardedOptions {
  readonly service: ClientService;
  readonly gate: string;
  readonly upstream: URL;
  /** Default: `amount` of the arguments, for the tool `pay`. */
  readonly amounts?: Amounts;
  /** Default: the sidecar of the service. */
  readonly sidecar?: Sidecar;
  /** Default: the control plane of the service. */
  readonly controlPlaneUrl?: string;
  readonly answerMsMax?: number;
  readonly takesIdempotencyKeys?: boolean;
  readonly servesWithoutDecision?: boolean;
  readonly forwardsPassport?: boolean;
  readonly showsAllTools?: boolean;
  readonly origins?: readonly string[];
  readonly openRequestsMax?: number;
}

const amounts: Amounts = new Map([['pay', { path: ['amount'] }]]);

/** The proxy in this process, before a server of the test. */
export function startGuarded(options: GuardedOptions): Promise<HttpProxy> {
  const { service, gate } = options;
  const controlPlaneUrl = options.controlPlaneUrl ?? service.url;
  const logger = silentLogger;
  const permitted = new PermittedTools({ controlPlaneUrl, clock: systemClock, logger });
  return startHttpProxy({
    upstream: options.upstream,
    answerMsMax: options.answerMsMax ?? 60_000,
    host: '127.0.0.1',
    port: 0,
    site: { hosts: [], origins: options.origins ?? [] },
    guard: callGuard({
      sidecar: options.sidecar ?? service.sidecar,
      controlPlaneUrl,
      gate,
      amounts: options.amounts ?? amounts,
      hidden: [],
      takesIdempotencyKeys: options.takesIdempotencyKeys ?? false,
      servesWithoutDecision: options.servesWithoutDecision ?? false,
      logger,
    }),
    shownTools: options.showsAllTools === true ? null : (shown) => shownTools(permitted, shown),
    forwardsPassport: options.forwardsPassport ?? false,
    ...(options.openRequestsMax === undefined ? {} : { openRequestsMax: options.openRequestsMax }),
    logger,
  });
}

/** One that answers nothing, at an address where nobody listens. */
export const absentSidecar = (port: number, apiKey: string): Sidecar =>
  new Sidecar({ url: `http://127.0.0.1:${port}`, apiKey });
