/**
 * Names of the owner's by which gates and webhooks are told apart, such as those that one file manages. No
 * decision reads them, and sidecars do not get them.
 */
export type Labels = Readonly<Record<string, string>>;

/** `team`, `example.com/managed-by`. */
export const labelNamePattern = /^[a-z0-9](?:[a-z0-9._/-]{0,61}[a-z0-9])?$/;
/** With which `apply` tells things of one name apart; of issuers in their metadata. */
export const keyLabel = 'agent-trust/key';
/** Few, because every list answers them. */
export const labelsMax = 16;
export const labelValueCharsMax = 63;
