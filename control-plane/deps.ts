import type { ChannelDeps } from './channels/deps.ts';
import type { ConsoleDeps } from './console/serve-console.ts';
import type { DecisionDeps } from './decisions/deps.ts';
import type { DiscoveryDeps } from './discovery/deps.ts';
import type { LogDeps } from './log/deps.ts';
import type { OidcDeps } from './oidc/deps.ts';

/**
 * All dependencies of the control plane's rooms; built in main.ts or by a test. No room imports this: each
 * names its own piece.
 */
export interface Deps extends DecisionDeps, ConsoleDeps, DiscoveryDeps, OidcDeps, ChannelDeps, LogDeps {}
