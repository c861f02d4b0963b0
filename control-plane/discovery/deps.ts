import type { BaseDeps } from '../base/deps.ts';
import type { FairShare } from '../storage/fair-share.ts';

export interface DiscoveryDeps extends BaseDeps {
  /** All public searches together have one share of the database (contract §10). */
  readonly discoveries: FairShare<'everybody'>;
}
