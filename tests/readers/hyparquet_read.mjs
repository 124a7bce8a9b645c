// Reads Parquet files (one path a line on standard input) with hyparquet and says what each column holds, a JSON line a file, in the
// words of values.py.
import { createHash } from 'node:crypto'
import { createInterface } from 'node:readline'
import { asyncBufferFromFile, parquetMetadataAsync, parquetReadObjects, parquetSchema } from 'hyparquet'
import { compressors } from 'hyparquet-compressors'

const bits = new DataView(new ArrayBuffer(8))

function realText(value) {
  if (Number.isNaN(value)) return 'nan'
  bits.setFloat64(0, value)
  return bits.getBigUint64(0).toString(16).padStart(16, '0')
}

function text(value, isReal) {
  if (value === null || value === undefined) return '~'
  if (typeof value === 'boolean') return value ? 't' : 'f'
  if (typeof value === 'bigint') return value.toString()
  if (typeof value === 'number') return isReal ? realText(value) : value.toString()
  if (typeof value === 'string') return `${Buffer.byteLength(value)}:${value}`
  if (Array.isArray(value)) return '[' + value.map(v => text(v, isReal)).join(',') + ']'
  throw new Error(`a value that is a ${value.constructor.name}`)
}

const leaf = node => node.children.length ? leaf(node.children[0]) : node

async function readColumn(file, metadata, node) {
  const name = node.element.name, isReal = ['FLOAT', 'DOUBLE'].includes(leaf(node).element.type)
  const rows = await parquetReadObjects({ file, metadata, columns: [name], compressors })
  const texts = rows.map(row => text(row[name], isReal))
  const hash = createHash('sha256')
  for (const t of texts) hash.update(t + '\n')
  return [rows.length, texts.filter(t => t === '~').length, new Set(texts).size, hash.digest('hex')]
}

for await (const path of createInterface({ input: process.stdin })) {
  const file = await asyncBufferFromFile(path), metadata = await parquetMetadataAsync(file), columns = {}
  for (const node of parquetSchema(metadata).children) columns[node.element.name] = await readColumn(file, metadata, node)
  console.log(JSON.stringify([path, columns]))
}
