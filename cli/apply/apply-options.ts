import type { ApiOptions } from '../base/host.ts';
import type { Label } from './apply-steps.ts';

/** Options of `agent-trust apply`. */
export interface ApplyOptions extends ApiOptions {
  readonly file: string;
  readonly plan?: boolean;
  readonly yes?: boolean;
  readonly prune?: Label;
  readonly secretsFile?: string;
  /** A time. */
  readonly backtest?: string;
  readonly shadow?: boolean;
}
