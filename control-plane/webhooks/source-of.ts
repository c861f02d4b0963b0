import type { WebhookDeps } from './deps.ts';

/** The origin of this service: the `source` of CloudEvents. */
export const sourceOf = ({ baseUrl }: Pick<WebhookDeps, 'baseUrl'>): string => new URL(baseUrl).origin;
