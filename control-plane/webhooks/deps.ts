import type { OutboundDeps } from '../outbox/deps.ts';
import type { SigningDeps } from '../signing/deps.ts';

export interface WebhookDeps extends SigningDeps, OutboundDeps {}
