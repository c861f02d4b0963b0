import type { DecisionDeps } from '../decisions/deps.ts';
import type { DiscoveryDeps } from '../discovery/deps.ts';

/** Dependencies of the tools' calls. */
export interface ToolDeps extends DecisionDeps, DiscoveryDeps {}
