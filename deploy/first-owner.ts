import type { FirstOwnerLink } from '../control-plane/people/invite-first-owner.ts';

/**
 * What a start says of the first owner: the link itself to a person at a terminal, and its file to everything
 * else, because what is written there is kept as a log.
 */
export const describeFirstOwner = (
  { url, file }: FirstOwnerLink,
  { isTTY }: { readonly isTTY?: boolean },
): string => (isTTY === true ? url : `open the link in ${file}`);
