import { cliLimits } from './limits.ts';

/** Asks for each, some at once (`cliLimits.callsAtOnce`), and answers in their order. */
export async function eachOf<Item, Found>(
  items: readonly Item[],
  find: (item: Item) => Promise<Found>,
): Promise<Found[]> {
  const found: Found[] = new Array(items.length);
  const places = items.entries();
  const worker = async () => {
    for (const [place, item] of places) found[place] = await find(item);
  };
  await Promise.all(Array.from({ length: cliLimits.callsAtOnce }, worker));
  return found;
}
