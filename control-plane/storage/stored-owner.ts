import type { Owner } from '../../shared/model/owner.ts';

/** An owner as the name that records keep (`record_names`). Neither part holds a space. */
export const ownerName = ({ accountId, mode }: Owner): string => `${accountId} ${mode}`;
