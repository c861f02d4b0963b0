import { atL1, block, type CaseData, permit, suspend } from './decision-case.ts';

const order = { permission_key: 'orders:create' };
const paying = (amount: number) => ({ ...order, amount });
const withApproval = [...atL1, 'approval'] as const;
const withSpend = [...atL1, 'spend_limit', 'approval'] as const;
const withRate = [...atL1, 'rate_limit', 'approval'] as const;
const above10 = { approvals: { above_usd: 10 } };
const asking = { approvals: { permissions: ['orders:create'] } };

/** What makes a request wait for a person. */
const demandCases: readonly CaseData[] = [
  {
    name: 'suspends an amount above that of the rule',
    gate: { constraints: above10 },
    request: paying(10.000001),
    want: suspend(...withApproval),
  },
  {
    name: 'permits exactly the amount of the rule',
    gate: { constraints: above10 },
    request: paying(10),
    want: permit(...withApproval),
  },
  {
    name: 'suspends a permission that the rule names',
    gate: { constraints: asking },
    want: suspend(...withApproval),
  },
  {
    name: 'suspends every action of an area that the rule names',
    gate: { constraints: { approvals: { permissions: ['orders:*'] } } },
    want: suspend(...withApproval),
  },
  {
    name: 'permits a permission that the rule does not name',
    gate: { constraints: { approvals: { permissions: ['orders:delete', 'mail:*'] } } },
    want: permit(...withApproval),
  },
  {
    name: 'suspends what requires an approval by the catalog',
    gate: { catalog: { permissions: [{ key: 'orders:create', requires_approval: true }] } },
    want: suspend(...withApproval),
  },
  {
    name: 'permits what stands in the same catalog and requires none',
    gate: {
      catalog: { permissions: [{ key: 'orders:create' }, { key: 'orders:delete', requires_approval: true }] },
    },
    want: permit(...atL1),
  },
  {
    name: "suspends by the passport's own rule",
    passport: { constraints: above10 },
    request: paying(11),
    want: suspend(...withApproval),
  },
  {
    name: "blocks by the passport's own rule where there is no gate that could ask",
    gate: null,
    passport: { constraints: above10 },
    request: paying(11),
    want: block('approval_required', 'passport', 'issuer', 'permission', 'approval'),
  },
  {
    name: 'blocks rather than suspends',
    gate: { constraints: { ...above10, spend_limits: { per_transaction_usd: 20 } } },
    request: paying(21),
    want: { ...block('spend_limit_exceeded', ...atL1, 'spend_limit'), limit: 20, requested: 21 },
  },
];

const heldCases: readonly CaseData[] = [
  {
    name: 'holds the money of a request that waits',
    gate: { constraints: { ...above10, spend_limits: { daily_usd: 20 } } },
    request: paying(9),
    earlier: [{ request: paying(12), decision: 'SUSPEND' }],
    want: {
      ...block('spend_limit_exceeded', ...atL1, 'spend_limit'),
      limit: 20,
      used: 12,
      requested: 9,
      resets: 'day',
    },
  },
  {
    name: 'holds the money of the same request once while it waits',
    gate: { constraints: { ...above10, spend_limits: { daily_usd: 30 } } },
    request: paying(15),
    earlier: [
      { request: paying(12), decision: 'SUSPEND' },
      { request: paying(12), decision: 'SUSPEND' },
    ],
    want: suspend(...withSpend),
  },
  {
    name: 'does not count the money that the same request holds against it',
    gate: { constraints: { ...above10, spend_limits: { daily_usd: 20 } } },
    request: paying(12),
    earlier: [{ decision: 'SUSPEND' }],
    want: suspend(...withSpend),
  },
  {
    name: 'takes no request from the window for one that waits',
    gate: { constraints: { ...above10, rate_limits: { requests_per_day: 1 } } },
    request: paying(9),
    earlier: [{ request: paying(12), decision: 'SUSPEND' }],
    want: permit(...withRate),
  },
  {
    name: 'blocks instead of waiting where the window has no request left',
    gate: { constraints: { ...above10, rate_limits: { requests_per_day: 1 } } },
    request: paying(12),
    earlier: [{ request: paying(9) }],
    want: {
      ...block('rate_limit_exceeded', ...atL1, 'rate_limit'),
      limit: 1,
      used: 1,
      requested: 1,
      resets: 'day',
    },
  },
  {
    name: 'frees the money of a request that was denied',
    gate: { constraints: { ...above10, spend_limits: { daily_usd: 20 } } },
    request: paying(12),
    approval: { became: 'denied', isPresented: false },
    want: suspend(...withSpend),
  },
  {
    name: 'frees the money of a request that waited too long',
    gate: {
      constraints: { approvals: { above_usd: 10, expires_in_s: 1 }, spend_limits: { daily_usd: 20 } },
    },
    request: paying(12),
    approval: { became: 'expired', isPresented: false },
    want: suspend(...withSpend),
  },
];

/** What becomes of a request that comes with an approval. */
const presentedCases: readonly CaseData[] = [
  {
    name: 'permits what was approved',
    gate: { constraints: asking },
    approval: { became: 'approved' },
    want: permit(...withApproval),
  },
  {
    name: 'permits what was approved with the money that waited for it',
    gate: { constraints: { ...above10, spend_limits: { daily_usd: 12 } } },
    request: paying(12),
    approval: { became: 'approved' },
    want: permit(...withSpend),
  },
  {
    name: 'suspends again what nobody has decided yet',
    gate: { constraints: asking },
    approval: { became: 'pending' },
    want: suspend(...withApproval),
  },
  {
    name: 'blocks what was denied',
    gate: { constraints: asking },
    approval: { became: 'denied' },
    want: { ...block('approval_denied', ...atL1), retryable: false },
  },
  {
    name: 'blocks an approval for which nobody answered in time',
    gate: { constraints: { approvals: { permissions: ['orders:create'], expires_in_s: 1 } } },
    approval: { became: 'expired' },
    want: block('approval_expired', ...atL1),
  },
  {
    name: 'takes an approval once',
    gate: { constraints: asking },
    approval: { became: 'used' },
    want: block('approval_used', ...atL1),
  },
  {
    name: 'takes no approval of another amount',
    gate: { constraints: above10 },
    request: paying(13),
    approval: { request: paying(12), became: 'approved' },
    want: block('approval_mismatch', ...atL1),
  },
  {
    name: 'takes no approval of another passport',
    gate: { constraints: asking },
    approval: { by: 'another passport', became: 'approved' },
    want: block('approval_mismatch', ...atL1),
  },
  {
    name: 'takes no approval of a gate as it was before',
    gate: { constraints: asking },
    approval: { became: 'gate changed' },
    want: block('approval_mismatch', ...atL1),
  },
  {
    name: 'takes the approval of a gate that has another name since',
    gate: { constraints: asking },
    approval: { became: 'gate renamed' },
    want: permit(...withApproval),
  },
  {
    name: 'says first that the passport was revoked in between',
    gate: { constraints: asking },
    approval: { became: 'approved' },
    circumstances: ['passport revoked'],
    want: block('passport_revoked', 'passport'),
  },
  {
    name: 'takes no approval without a gate',
    gate: null,
    request: { ...order, approval_id: `appr_${'0'.repeat(26)}` },
    want: block('approval_mismatch', 'passport', 'issuer', 'permission'),
  },
  {
    name: 'decides on no approval that cannot be looked up',
    gate: { constraints: asking },
    approval: { became: 'approved' },
    circumstances: ['control plane away'],
    want: block('quota_unavailable', ...atL1),
  },
  {
    name: 'suspends nothing while the money cannot be held',
    gate: { constraints: { ...above10, spend_limits: { daily_usd: 20 } } },
    request: paying(12),
    circumstances: ['control plane away'],
    want: block('quota_unavailable', ...atL1, 'spend_limit'),
  },
];

/** A person in the loop: who is asked, what waits meanwhile, and what an approval is good for. */
export const approvalCases: readonly CaseData[] = [...demandCases, ...heldCases, ...presentedCases];
