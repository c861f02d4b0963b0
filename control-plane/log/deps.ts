import type { WitnessPolicy } from '../../shared/log/witness-policy.ts';
import type { SigningDeps } from '../signing/deps.ts';

export interface LogDeps extends SigningDeps {
  /** LOG_WITNESSES. Null: checkpoints are published without cosignatures. */
  readonly witnesses: WitnessPolicy | null;
}

/** The origin of the log: its address without the scheme (C2SP tlog-tiles). Kept from its first start on. */
export const originOf = ({ baseUrl }: Pick<LogDeps, 'baseUrl'>, log: number): string =>
  `${baseUrl.replace(/^https?:\/\//, '').replace(/\/v1$/, '')}/log${log === 1 ? '' : `/${log}`}`;
