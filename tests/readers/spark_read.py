"""Reads Parquet files (one path a line on standard input) with Spark and says what each column holds, a JSON line a file, in the words of
values.py. Spark counts rows, nulls and distinct values itself; the digest is of the rows that it hands out.
"""

import json
import sys

from pyspark.sql import SparkSession, functions

from values import summarise


def read(spark, path):
    frame = spark.read.parquet(path)
    found = summarise(frame.toArrow())
    counts = [functions.count("*")]
    for name in found:
        column = functions.col(f"`{name}`")
        counts += [functions.count(column), functions.count_distinct(column)]
    rows, *pairs = frame.agg(*counts).first()
    for k, name in enumerate(found):
        values, distinct = pairs[2 * k], pairs[2 * k + 1]
        # Spark leaves nulls out of distinct values.
        counted = [rows, rows - values, distinct + (values < rows)]
        if counted != found[name][:3]:
            found[name] = [*counted, f"rows handed out differ: {found[name]}"]
    return found


def main():
    spark = (SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.driver.memory", "3g")
             .config("spark.sql.caseSensitive", "true").config("spark.sql.shuffle.partitions", "1")
             .config("spark.log.level", "ERROR").getOrCreate())
    print(json.dumps(["version", spark.version]), flush=True)
    for line in sys.stdin:
        path = line.rstrip("\n")
        print(json.dumps([path, read(spark, path)]), flush=True)
    spark.stop()


main()
