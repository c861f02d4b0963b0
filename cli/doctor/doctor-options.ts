import type { ApiOptions } from '../base/host.ts';

/** Options of `agent-trust doctor`. */
export interface DoctorOptions extends ApiOptions {
  readonly sidecar?: readonly string[];
  readonly backupStamp?: string;
  readonly backupMaxAge: number;
}
