// Which colour a node has: its own while there are few, else that of its rack or datacenter.

const COLOURS = 8;

/** What the nodes are coloured by, the colour of each, and what the legend says. */
export function coloured(model, wanted) {
  const by = chosen(model, wanted);
  const keys = keysOf(model)[by];
  const keyOf = { node: (node) => node.id, rack: (node) => node.rack, datacenter: (node) => node.datacenter }[by];
  const places = new Map(keys.map((key, index) => [key, index]));
  const colourAt = (index) => `--owner-${(index % COLOURS) + 1}`;
  const entries = keys.slice(0, COLOURS * 2).map((key, index) => ({
    colour: colourAt(index),
    text: by === "node" ? `node ${key}` : key,
  }));
  if (keys.length > entries.length) {
    entries.push({ colour: "--line", text: `and ${keys.length - entries.length} more, whose colours repeat` });
  }
  return {
    by,
    entries,
    colourOf: (node) => (node ? colourAt(places.get(keyOf(node))) : "--line"),
    options: [
      ["node", "Node"],
      ["rack", "Rack"],
      ["datacenter", "Datacenter"],
    ],
  };
}

function chosen(model, wanted) {
  const keys = keysOf(model);
  if (wanted in keys) return wanted;
  if (keys.node.length <= COLOURS) return "node";
  return keys.rack.length <= COLOURS ? "rack" : "datacenter";
}

function keysOf({ nodes, racks, datacenters }) {
  return { node: [...nodes.keys()], rack: racks, datacenter: datacenters };
}
