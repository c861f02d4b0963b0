import type { DecisionDeps } from '../decisions/deps.ts';
import type { DiscoveryDeps } from '../discovery/deps.ts';

/** What the calls need that the tools offer. */
export interface ToolDeps extends DecisionDeps, DiscoveryDeps {}
