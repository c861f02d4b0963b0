// The hostile MCP server as a program. Its state is the JSON file STATE; it notes what it is asked in FILE.
import { appendFileSync, readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { answersTo } from './hostile-answers.mjs';

const note = (word) => appendFileSync(process.env.FILE, `${word}\n`);
for await (const line of createInterface({ input: process.stdin })) {
  const state = JSON.parse(readFileSync(process.env.STATE, 'utf8'));
  const text = (answer) => state.texts?.[JSON.parse(line).method] ?? JSON.stringify(answer);
  for (const answer of answersTo(JSON.parse(line), state, note)) process.stdout.write(`${text(answer)}\n`);
}
