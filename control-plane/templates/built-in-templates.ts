import type { BuiltInTemplateId, Template } from '../../shared/model/template.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { type GateConstraints, parseConstraints } from '../../shared/wire/api/constraints.ts';

/** When the service first had them. */
const createdAtMs = Date.UTC(2026, 10, 1) as UnixMillis;

const builtIn = (
  templateId: BuiltInTemplateId,
  given: Pick<Template, 'name' | 'description' | 'trustLevel'> & { readonly constraints: GateConstraints },
): Template => ({
  ...given,
  templateId,
  constraints: parseConstraints(given.constraints, { param: 'constraints', of: 'template' }),
  isBuiltIn: true,
  createdAtMs,
});

/**
 * The same for every account. Changing one changes no gate that was made of it. All have the level L1, which
 * is the default tier of a passport: a first request must not fail because of a tier that was never chosen.
 */
export const builtInTemplates: readonly Template[] = [
  builtIn('read-only-research', {
    name: 'Read-only research',
    description:
      'Agents that look things up and pay nothing: a steady pace, no money, a note where personal data is sent.',
    trustLevel: 'L1',
    constraints: {
      rate_limits: { requests_per_minute: 60, requests_per_day: 10_000, per: 'passport' },
      // Nothing is bought: a request names no amount.
      spend_limits: { per_transaction_usd: 0, unpriced: 'permit' },
      pii_controls: { mode: 'log_only' },
    },
  }),
  builtIn('payments-low-risk', {
    name: 'Low-risk payments',
    description: 'Small purchases that nobody has to look at, up to a daily budget for each agent.',
    trustLevel: 'L1',
    constraints: {
      rate_limits: { requests_per_minute: 30, per: 'passport' },
      spend_limits: { per_transaction_usd: 50, daily_usd: 500, per: 'passport' },
    },
  }),
  builtIn('payments-approval', {
    name: 'Payments with approval',
    description: 'Larger purchases, of which everything above 100 USD waits for the yes of a person.',
    trustLevel: 'L1',
    constraints: {
      rate_limits: { requests_per_minute: 30, per: 'passport' },
      spend_limits: { per_transaction_usd: 5_000, daily_usd: 20_000 },
      approvals: { above_usd: 100 },
    },
  }),
];
