/**
 * Assurance levels, lowest first. A passport has a tier; a gate demands a level; the tier must reach the
 * level (contract §4).
 */
export const trustTiers = ['L1', 'L2', 'L3'] as const;

export type TrustTier = (typeof trustTiers)[number];

export const isTrustTier = (value: unknown): value is TrustTier =>
  value === 'L1' || value === 'L2' || value === 'L3';

export const reachesTier = (tier: TrustTier, required: TrustTier): boolean =>
  trustTiers.indexOf(tier) >= trustTiers.indexOf(required);
