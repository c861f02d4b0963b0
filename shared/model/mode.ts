/** Live and test are separate environments: a key sees only rows of its own mode (contract §2). */
export const modes = ['live', 'test'] as const;

export type Mode = (typeof modes)[number];

export const isMode = (value: unknown): value is Mode => value === 'live' || value === 'test';
