import type { BaseDeps } from '../base/deps.ts';
import type { FairShare } from '../storage/fair-share.ts';

export interface DiscoveryDeps extends BaseDeps {
  /** All searches of strangers together have a share of the database of their own (contract §10). */
  readonly discoveries: FairShare<'everybody'>;
}
