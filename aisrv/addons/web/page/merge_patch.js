// RFC 7396: a member that is null goes, an object is merged, all else takes its place.
export function merge(target, patch) {
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete target[key];
    else if (typeof value === "object" && !Array.isArray(value))
      target[key] = merge(
        typeof target[key] === "object" && !Array.isArray(target[key]) ? target[key] : {},
        value,
      );
    else target[key] = value;
  }
  return target;
}
